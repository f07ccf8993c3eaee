package symheap

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/kernels/ptx"
	"github.com/colligo-go/colligo/pg/backend"
)

// Kernels are the kernels that the heap launches itself.
type Kernels struct {
	Copy, Fill cuda.Function
}

// Heap is one rank's heap, and the peers' as this rank's device sees them.
type Heap struct {
	Layout   Layout
	At       cuda.Pointer // on this rank
	Sentinel [4]uint32    // 16 bytes of sentinel memory to which nothing has come; random, and equal on all ranks

	group        backend.Host
	driver       *cuda.Driver
	device       *cuda.Device
	rank, size   int
	kernels      Kernels
	patterns     *cuda.Host // of the self-test
	peers        []mapping  // by rank; the own heap at this rank's index
	windows      []*Window
	registered   uint32 // windows so far
	processPeers string // the name of this rank's, empty if no peer has been told of the heap
	leaving      string // key of the group's store at which ranks count that leave
}

// mapping is a rank's heap as this device sees it.
type mapping struct {
	at     cuda.Pointer
	device *cuda.Device // of a rank in this process, on another device
	opened bool         // by an IPC handle
}

// New returns a heap that Alloc and Meet make.
func New(g backend.Host, driver *cuda.Driver, d *cuda.Device, l Layout) *Heap {
	return &Heap{Layout: l, group: g, driver: driver, device: d, rank: g.Rank(), size: g.Size()}
}

// Alloc allocates the heap and fills it as an idle heap is: zeros, all slots of eager buffers free, and all peers trusted.
func (h *Heap) Alloc(t cuda.Thread, s cuda.Stream) error {
	var err error
	if h.At, err = t.Alloc(h.Layout.Bytes); err != nil {
		free, total, err2 := t.MemoryInfo()
		return errors.Join(fmt.Errorf("the group's heap of %d bytes, with %d of the device's %d bytes free (peer.Options.Memory asks for less): %w",
			h.Layout.Bytes, free, total, err), err2)
	}
	if h.size == 1 {
		h.peers = []mapping{{at: h.At}}
	}
	if err := t.Set8(h.At, 0, h.Layout.Bytes, s); err != nil {
		return err
	}
	free, n := h.Layout.eagerFree()
	if err := t.Set32(h.Address(free), 1, n, s); err != nil {
		return err
	}
	if err := t.Set32(h.Address(h.Layout.TrustedAt(0)), 1, h.size, s); err != nil {
		return err
	}
	return t.Synchronize(s)
}

// Use has the heap launch these kernels.
func (h *Heap) Use(k Kernels) { h.kernels = k }

// Peer returns where a rank's heap begins for this device.
func (h *Heap) Peer(rank int) cuda.Pointer { return h.peers[rank].at }

// Address returns the address of an offset in this rank's heap.
func (h *Heap) Address(at int) cuda.Pointer { return h.At + cuda.Pointer(at) }

// PeerAddress returns the address on this device of an offset in a rank's heap.
func (h *Heap) PeerAddress(rank, at int) cuda.Pointer { return h.peers[rank].at + cuda.Pointer(at) }

// FillSentinel enqueues that some bytes of the heap become sentinels, as sentinel memory is while nothing is on its way.
func (h *Heap) FillSentinel(t cuda.Thread, at, bytes int, s cuda.Stream) error {
	a := &ptx.FillArgs{Out: uint64(h.At) + uint64(at), Lines: uint64(up(bytes, 16) / 16), Line: h.Sentinel}
	return t.Launch(h.kernels.Fill, cuda.Grid{Blocks: uint32(min(bytes>>18+1, 128)), Threads: 512}, unsafe.Pointer(a), s)
}

// free gives the heap's memory back.
func (h *Heap) free(t cuda.Thread) (err error) {
	if h.patterns != nil {
		err, h.patterns = t.FreeHost(h.patterns), nil
	}
	if h.At == 0 {
		return err
	}
	at := h.At
	h.At = 0
	return errors.Join(err, t.Free(at))
}
