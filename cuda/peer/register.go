package peer

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/internal/streamorder"
	"github.com/colligo-go/colligo/cuda/peer/internal/symheap"
	"github.com/colligo-go/colligo/cuda/staged"
	"github.com/colligo-go/colligo/pg"
)

// A Registration is memory that all ranks of a group have mapped. Collectives on tensors in it read and write the peers'
// tensors themselves where that is faster than by way of the symmetric heap.
//
// The contract is that of NCCL's windows. If one rank's tensor of an operation lies in registered memory, every rank's does.
// It lies in the memory of the same call of Register, equally far from its beginning. Where an operation can tell that the contract is
// broken it fails and names a peer. The memory must stay until the registration is closed.
type Registration struct {
	once  sync.Once
	close func() error
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
	switch b := of.(type) {
	case *backend:
		w, err := b.register(ctx, t)
		if err != nil {
			return nil, fmt.Errorf("registering %v: %w", t, err)
		}
		return &Registration{close: func() error { return b.unregister(w) }}, nil
	case *staged.Backend: // it maps nothing, but closing the registration waits for the operations that use the memory
		return &Registration{close: b.Settle}, nil
	}
	return nil, fmt.Errorf("registering %v: the group's backend for %v registers nothing", t, t.Device())
}

// Close ends the registration. All ranks call it together, after the operations that they have enqueued. It waits until those
// are done everywhere, and until no rank has the memory mapped. Closing a group closes its registrations.
func (r *Registration) Close() (err error) {
	r.once.Do(func() { err = r.close() })
	return err
}

// register maps the memory of a tensor into the peers.
func (b *backend) register(ctx context.Context, t colligo.Tensor) (*symheap.Window, error) {
	thread, err := b.device.Enter()
	if err != nil {
		return nil, err
	}
	defer thread.Leave()
	w, err := b.heap.Map(ctx, thread, cuda.Pointer(t.Addr()), t.Size())
	if err != nil {
		return nil, err
	}
	b.Lock()
	defer b.Unlock()
	b.heap.Add(w)
	return w, nil
}

// unregister waits until no operation uses a window, and unmaps it.
func (b *backend) unregister(w *symheap.Window) error {
	b.Lock()
	known := b.heap.Forget(w)
	b.Unlock()
	if !known { // the group's end has closed it
		return nil
	}
	t, err := b.device.Enter()
	if err != nil {
		return err
	}
	defer t.Leave()
	err = streamorder.Relaxed(t, func() error {
		for n := 0; b.Failure.Err() == nil && !b.Quiet(t); n++ {
			streamorder.Pause(n)
		}
		b.QuietWithin(t, streamorder.Patience) // after a failure copies to the peers can be on their way, too
		return nil
	})
	together := b.Failure.Err() == nil && b.size > 1
	if together {
		err = b.group.Barrier(context.Background())
		together = err == nil
	}
	err = errors.Join(err, w.Close(t))
	if together { // the caller may free the memory, which is not to be mapped anywhere then
		err = errors.Join(err, b.group.Barrier(context.Background()))
	}
	return err
}
