package peer

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"sync/atomic"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/pg"
)

// A Registration is memory that all ranks of a group have mapped. Collectives on tensors in it read and write the peers'
// tensors themselves where that is faster than by way of the symmetric heap.
//
// The contract is that of NCCL's windows: in an operation in which one rank's tensor lies in registered memory, every
// rank's lies in the memory that it registered in the same call of Register, equally far from its beginning. Where an
// operation can tell that it is broken it fails and names a peer. The memory must stay until the registration is closed.
type Registration struct {
	b *backend
	w *window
}

// window is memory of the same length on every rank.
type window struct {
	id    uint32
	at    cuda.Pointer // on this rank
	bytes int
	bases [maxRanks]cuda.Pointer // by rank, as this device sees it
	whole bool                   // the allocations are of whole large pages everywhere
	align int                    // the largest power of two up to 4096 of which all bases are multiples
	opens []cuda.Pointer         // what to close
}

// Register makes the memory of a contiguous tensor reachable for the peers of a group. All ranks call it together, with
// the same number of bytes. It fails on all of them or on none; a failure leaves the group as it was. The memory comes
// from cuMemAlloc (cudaMalloc), or the ranks share a process. Allocations of whole 2 MiB are best: copies between
// processes took a third more time where they were not.
func Register(ctx context.Context, g *pg.Group, t colligo.Tensor) (*Registration, error) {
	if !t.Valid() || !t.Contiguous() || t.Device().Kind != colligo.CUDA {
		return nil, fmt.Errorf("registering %v: only contiguous tensors on a GPU can be", t)
	}
	of, err := g.BackendFor(ctx, t.Device())
	if err != nil {
		return nil, fmt.Errorf("registering %v: %w", t, err)
	}
	b, ok := of.(*backend)
	if !ok {
		return nil, fmt.Errorf("registering %v: the group's backend for %v registers nothing", t, t.Device())
	}
	w, err := b.register(ctx, cuda.Pointer(t.Addr()), t.Size())
	if err != nil {
		return nil, fmt.Errorf("registering %v: %w", t, err)
	}
	return &Registration{b, w}, nil
}

// site is what a rank tells of the memory it registers.
type site struct {
	Process string
	At      uint64 // of the tensor
	Start   uint64 // of its allocation
	Bytes   int
	Whole   bool   // the allocation is of whole large pages
	Handle  []byte // of the allocation
	Trouble string // why there is nothing
}

// register exchanges places and maps the peers' memory.
func (b *backend) register(ctx context.Context, at cuda.Pointer, bytes int) (*window, error) {
	if b.staging != nil {
		return b.staging.register(b, at, bytes), nil
	}
	t, err := b.device.Enter()
	if err != nil {
		return nil, err
	}
	defer t.Leave()
	own := b.siteOf(t, at, bytes)
	all, err := exchange(ctx, b.group, own)
	if err != nil {
		return nil, err
	}
	w := &window{at: at, bytes: bytes, align: 4096, whole: true}
	told := &site{}
	if err = w.open(t, b, all); err != nil {
		told.Trouble = err.Error()
	}
	results, err2 := exchange(ctx, b.group, told)
	for q := range results {
		if results[q].Trouble != "" && err2 == nil {
			err2 = fmt.Errorf("rank %d: %s", q, results[q].Trouble)
		}
	}
	if err2 != nil {
		err = w.close(t)
		if results != nil && b.size > 1 {
			err = errors.Join(err, b.group.Barrier(ctx)) // who hears that it failed may free the memory
		}
		return nil, errors.Join(err2, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.registered++
	w.id = b.registered
	b.windows = append(b.windows, w)
	return w, nil
}

func (b *backend) siteOf(t cuda.Thread, at cuda.Pointer, bytes int) *site {
	s := &site{Process: b.home(), At: uint64(at), Bytes: bytes}
	start, err := b.options.Driver.PointerAttribute(cuda.PointerRangeStart, at)
	size, err2 := b.options.Driver.PointerAttribute(cuda.PointerRangeSize, at)
	if err := first(err, err2); err != nil {
		s.Trouble = fmt.Sprintf("%#x: %v", at, err)
		return s
	}
	s.Start, s.Whole = start, size%largePage == 0
	if h, err := t.IPCHandle(at); err == nil {
		s.Handle = h[:]
	}
	return s
}

// open maps what the peers have told.
func (w *window) open(t cuda.Thread, b *backend, all []site) error {
	for q := range all {
		s := &all[q]
		switch {
		case s.Trouble != "":
			return fmt.Errorf("memory of rank %d: %s", q, s.Trouble)
		case s.Bytes != w.bytes:
			return fmt.Errorf("rank %d registers %d bytes, rank %d %d", q, s.Bytes, b.rank, w.bytes)
		case s.Process == all[b.rank].Process:
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
		w.whole = w.whole && s.Whole
		w.align = min(w.align, 1<<bits.TrailingZeros64(s.At|4096))
	}
	return nil
}

func (w *window) close(t cuda.Thread) error {
	var errs []error
	for _, at := range w.opens {
		errs = append(errs, t.CloseIPC(at))
	}
	w.opens = nil
	return errors.Join(errs...)
}

// window returns the registered memory that has all of a tensor, nil if none has. The caller holds b.mu.
func (b *backend) window(at cuda.Pointer, bytes int) *window {
	for _, w := range b.windows {
		if off := uint64(at - w.at); at >= w.at && off <= uint64(w.bytes) && uint64(bytes) <= uint64(w.bytes)-off {
			return w
		}
	}
	return nil
}

// peerAt returns where the tensor that begins at address at on this rank begins on rank q.
func (w *window) peerAt(q int, at cuda.Pointer) cuda.Pointer { return w.bases[q] + (at - w.at) }

// aligned reports whether a tensor at an address lies at a multiple of n on all ranks; n is a power of two up to 4096.
func (w *window) aligned(at cuda.Pointer, n int) bool {
	return w.align >= n && (at-w.at)%cuda.Pointer(n) == 0
}

// mark is equal on ranks that mean the same tensor of a window.
func (w *window) mark(at cuda.Pointer, bytes int) uint32 {
	h := uint64(w.id)*0x9e3779b97f4a7c15 ^ uint64(at-w.at)*0xc2b2ae3d27d4eb4f ^ uint64(bytes)*0x165667b19e3779f9
	return uint32(h>>32) ^ uint32(h)
}

// strayed returns an error if a kernel has found that ranks mean different places of registered memory.
func (b *backend) strayed() error {
	for q := range b.size {
		if atomic.LoadUint32(b.word(1+maxRanks+q)) != 0 {
			return fmt.Errorf("rank %d and rank %d called a collective for different places or lengths of registered memory: %w",
				b.rank, q, colligo.ErrMismatch)
		}
	}
	return nil
}

// Close ends the registration. All ranks call it together, after the operations that they have enqueued; it waits until
// those are done everywhere, and until no rank has the memory mapped. Closing a group closes its registrations.
func (r *Registration) Close() error {
	b := r.b
	if !b.forget(r.w) {
		return nil
	}
	t, err := b.device.Enter()
	if err != nil {
		return err
	}
	defer t.Leave()
	err = relaxed(t, func() error {
		for n := 0; b.failure.get() == nil && !b.quiet(t); n++ {
			pause(n)
		}
		b.idleWithin(t, patience) // after a failure copies to the peers can be on their way, too
		return nil
	})
	together := b.failure.get() == nil && b.size > 1
	if together {
		err = b.group.Barrier(context.Background())
		together = err == nil
	}
	err = errors.Join(err, r.w.close(t))
	if together { // the caller may free the memory, which is not to be mapped anywhere then
		err = errors.Join(err, b.group.Barrier(context.Background()))
	}
	return err
}

// forget removes a window from those that operations find. It reports whether it was among them.
func (b *backend) forget(w *window) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, v := range b.windows {
		if v == w {
			b.windows = append(b.windows[:i:i], b.windows[i+1:]...)
			return true
		}
	}
	return false
}

// closeWindows closes what is still registered.
func (b *backend) closeWindows(t cuda.Thread) error {
	var errs []error
	for _, w := range b.windows {
		errs = append(errs, w.close(t))
	}
	b.windows = nil
	return errors.Join(errs...)
}
