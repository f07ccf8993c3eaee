package symheap

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/pg/backend"
)

// Window is registered memory, of the same length on every rank.
type Window struct {
	id    uint32
	at    cuda.Pointer // on this rank
	bytes int
	bases [MaxRanks]cuda.Pointer // by rank, as this device sees it
	Whole bool                   // the allocations are of whole large pages everywhere
	align int                    // the largest power of two up to 4096 of which all bases are multiples
	opens []cuda.Pointer         // mapped by IPC
}

// site describes the memory that a rank registers to the others.
type site struct {
	Process string
	At      uint64 // of the tensor
	Start   uint64 // of its allocation
	Bytes   int
	Whole   bool   // the allocation is of whole large pages
	Handle  []byte // of the allocation
	Trouble string // why there is nothing
}

// Map exchanges where the memory lies and maps the peers', on all ranks together. It fails on all of them or on none. The
// window is to be given to Add.
func (h *Heap) Map(ctx context.Context, t cuda.Thread, at cuda.Pointer, bytes int) (*Window, error) {
	all, err := Exchange(ctx, h.group, h.siteOf(t, at, bytes))
	if err != nil {
		return nil, err
	}
	w := &Window{at: at, bytes: bytes, align: 4096, Whole: true}
	told := &site{}
	if err = w.open(t, h.rank, all); err != nil {
		told.Trouble = err.Error()
	}
	results, err2 := Exchange(ctx, h.group, told)
	for q := range results {
		if results[q].Trouble != "" && err2 == nil {
			err2 = fmt.Errorf("rank %d: %s", q, results[q].Trouble)
		}
	}
	if err2 == nil {
		return w, nil
	}
	err = w.Close(t)
	if results != nil && h.size > 1 {
		err = errors.Join(err, backend.Barrier(ctx, h.group)) // a program that hears of the failure may free the memory
	}
	return nil, errors.Join(err2, err)
}

// Add lets operations find a window.
func (h *Heap) Add(w *Window) {
	h.registered++
	w.id = h.registered
	h.windows = append(h.windows, w)
}

func (h *Heap) siteOf(t cuda.Thread, at cuda.Pointer, bytes int) *site {
	s := &site{Process: h.home(), At: uint64(at), Bytes: bytes}
	start, err := h.driver.PointerAttribute(cuda.PointerRangeStart, at)
	size, err2 := h.driver.PointerAttribute(cuda.PointerRangeSize, at)
	if err := cmp.Or(err, err2); err != nil {
		s.Trouble = fmt.Sprintf("%#x: %v", at, err)
		return s
	}
	s.Start, s.Whole = start, size%largePage == 0
	if h, err := t.IPCHandle(at); err == nil {
		s.Handle = h[:]
	}
	return s
}

// open maps the memory of the peers.
func (w *Window) open(t cuda.Thread, rank int, all []site) error {
	for q := range all {
		s := &all[q]
		switch {
		case s.Trouble != "":
			return fmt.Errorf("memory of rank %d: %s", q, s.Trouble)
		case s.Bytes != w.bytes:
			return fmt.Errorf("rank %d registers %d bytes, rank %d %d", q, s.Bytes, rank, w.bytes)
		case s.Process == all[rank].Process:
			w.bases[q] = cuda.Pointer(s.At)
		case len(s.Handle) != len(cuda.IPCHandle{}):
			return fmt.Errorf("the driver gives no IPC handle of the memory of rank %d", q)
		default:
			at, err := t.OpenIPC(cuda.IPCHandle(s.Handle))
			if err != nil {
				return fmt.Errorf("mapping the memory of rank %d: %w", q, err)
			}
			w.opens = append(w.opens, at)
			w.bases[q] = at + cuda.Pointer(s.At-s.Start)
		}
		w.Whole = w.Whole && s.Whole
		w.align = min(w.align, 1<<bits.TrailingZeros64(s.At|4096))
	}
	return nil
}

// Close unmaps the peers' memory.
func (w *Window) Close(t cuda.Thread) error {
	var errs []error
	for _, at := range w.opens {
		errs = append(errs, t.CloseIPC(at))
	}
	w.opens = nil
	return errors.Join(errs...)
}

// Window returns the registered memory that has all of a tensor, nil if none has.
func (h *Heap) Window(at cuda.Pointer, bytes int) *Window {
	for _, w := range h.windows {
		if off := uint64(at - w.at); at >= w.at && off <= uint64(w.bytes) && uint64(bytes) <= uint64(w.bytes)-off {
			return w
		}
	}
	return nil
}

// PeerAt returns where the tensor that begins at address at on this rank begins on rank q.
func (w *Window) PeerAt(q int, at cuda.Pointer) cuda.Pointer { return w.bases[q] + (at - w.at) }

// Aligned reports whether a tensor at an address lies at a multiple of n on all ranks. The number n is a power of two up to
// 4096.
func (w *Window) Aligned(at cuda.Pointer, n int) bool {
	return w.align >= n && (at-w.at)%cuda.Pointer(n) == 0
}

// Mark is equal on ranks that mean the same tensor of a window.
func (w *Window) Mark(at cuda.Pointer, bytes int) uint32 {
	h := uint64(w.id)*0x9e3779b97f4a7c15 ^ uint64(at-w.at)*0xc2b2ae3d27d4eb4f ^ uint64(bytes)*0x165667b19e3779f9
	return uint32(h>>32) ^ uint32(h)
}

// Forget keeps operations from finding a window. It reports whether they could.
func (h *Heap) Forget(w *Window) bool {
	i := slices.Index(h.windows, w)
	if i < 0 {
		return false
	}
	h.windows = append(h.windows[:i:i], h.windows[i+1:]...)
	return true
}

// closeWindows unmaps everything that is still registered.
func (h *Heap) closeWindows(t cuda.Thread) error {
	var errs []error
	for _, w := range h.windows {
		errs = append(errs, w.Close(t))
	}
	h.windows = nil
	return errors.Join(errs...)
}
