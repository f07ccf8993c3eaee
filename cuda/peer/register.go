package peer

import (
	"context"
	"errors"
	"fmt"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/internal/streamorder"
	"github.com/colligo-go/colligo/cuda/peer/internal/symheap"
	seam "github.com/colligo-go/colligo/pg/backend"
)

// registration is memory that all ranks of a group have mapped. Collectives on tensors in it read and write the peers'
// tensors themselves where that is faster than by way of the symmetric heap.
//
// The contract is that of NCCL's windows. If one rank's tensor of an operation lies in registered memory, every rank's does.
// It lies in the memory of the same call of Register, equally far from its beginning. Where an operation can tell that the
// contract is broken it fails and names a peer. The memory must stay until the registration is closed.
type registration struct {
	b *backend
	w *symheap.Window
}

// Register implements backend.Registrar: it makes the memory of a contiguous tensor reachable for the peers. All ranks call it
// together, with the same number of bytes. It fails on all of them or on none; a failure leaves the group as it was. The
// memory comes from cuMemAlloc (cudaMalloc), or the ranks share a process. Allocations of whole 2 MiB are best: copies between
// processes took a third more time where they were not.
func (b *backend) Register(ctx context.Context, t colligo.Tensor) (seam.Registration, error) {
	w, err := b.register(ctx, t)
	if err != nil {
		return nil, fmt.Errorf("registering %v: %w", t, err)
	}
	return &registration{b, w}, nil
}

// Close ends the registration. All ranks call it together, after the operations that they have enqueued. It waits until those
// are done everywhere, and until no rank has the memory mapped. Closing a group closes its registrations.
func (r *registration) Close() error { return r.b.unregister(r.w) }

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
		for n := 0; b.Failure.Err() == nil && !b.Quiet(t); {
			n = streamorder.Pause(n)
		}
		b.QuietWithin(t, streamorder.Patience) // after a failure copies to the peers can be on their way, too
		return nil
	})
	together := b.Failure.Err() == nil && b.size > 1
	if together {
		err = seam.Barrier(context.Background(), b.group)
		together = err == nil
	}
	err = errors.Join(err, w.Close(t))
	if together { // the caller may free the memory, which is not to be mapped anywhere then
		err = errors.Join(err, seam.Barrier(context.Background(), b.group))
	}
	return err
}
