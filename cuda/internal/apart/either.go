package apart

import (
	"context"
	"errors"
	"sync"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/internal/streamorder"
	"github.com/colligo-go/colligo/cuda/nccl"
	"github.com/colligo-go/colligo/cuda/staged"
	"github.com/colligo-go/colligo/pg/backend"
	"github.com/colligo-go/colligo/plan"
)

// either carries a collective by NCCL, and stages messages and what NCCL lacks. NCCL's backend carries out Read, Stage and Unstage.
type either struct {
	nccl.Backend
	rest   *staged.Backend
	group  backend.Host
	device *cuda.Device

	mu    sync.Mutex // held while a call is given
	block block
	last  backend.Pending // of the last asynchronous collective
	by    way             // of the last collective

	counting sync.Mutex
	count    [streamorder.NumQueues]streamorder.Shares
}

// way is by which backend a call goes.
type way int

const (
	byNCCL way = iota
	byHost
)

// block is the calls of a block, which End gives.
type block struct {
	open, async bool
	ctx         []context.Context
	calls       []backend.Call
}

var (
	_ backend.Grouper   = (*either)(nil)
	_ backend.Tracker   = (*either)(nil)
	_ backend.Reader    = (*either)(nil)
	_ backend.Stager    = (*either)(nil)
	_ backend.Registrar = (*either)(nil)
)

// wayOf tells how a call goes.
func (b *either) wayOf(c *backend.Call) way {
	if streamorder.QueueOf(c.Coll) == streamorder.Collectives && b.Has(c) {
		return byNCCL
	}
	return byHost
}

// Run implements backend.Backend.
func (b *either) Run(ctx context.Context, c *backend.Call) (backend.Pending, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.block.open:
		b.block.ctx, b.block.calls = append(b.block.ctx, ctx), append(b.block.calls, *c)
		return nil, nil
	case c.Coll == plan.Barrier:
		return b.end(ctx, c, 1)
	}
	w := b.wayOf(c)
	to, err := b.turn(ctx, c, w)
	if err != nil {
		return nil, err
	}
	p, err := to.Run(ctx, c)
	if err == nil {
		b.took(streamorder.QueueOf(c.Coll), w, 1, p)
	}
	return p, err
}

// turn returns the backend that a call goes to, behind those of the other one (invariant 2).
func (b *either) turn(ctx context.Context, c *backend.Call, w way) (to backend.Grouper, err error) {
	if to = b.Backend; w == byHost {
		to = b.rest
	}
	if w == b.by || b.last == nil || streamorder.QueueOf(c.Coll) != streamorder.Collectives {
		return to, nil
	}
	captured := false
	err = streamorder.OnDevice(b.device, func(t cuda.Thread) (err error) {
		captured, _, err = streamorder.Capture(t, streamorder.Of(ctx))
		return err
	})
	if err != nil || captured { // a graph waits for nothing outside itself
		return to, err
	}
	return to, b.last.Wait(ctx)
}

// took notes calls that a backend has taken.
func (b *either) took(q streamorder.Queue, w way, n uint64, p backend.Pending) {
	b.counting.Lock()
	b.count[q].Add(int(w), n)
	b.counting.Unlock()
	if q != streamorder.Collectives {
		return
	}
	if b.by = w; p != nil {
		b.last = p
	}
}

// end gives a barrier to both backends: it is done when everything is that was given before.
func (b *either) end(ctx context.Context, c *backend.Call, n uint64) (backend.Pending, error) {
	first, err := b.Backend.Run(ctx, c)
	if err != nil {
		return nil, err
	}
	second, err := b.rest.Run(ctx, c)
	if err != nil {
		return nil, err
	}
	b.counting.Lock()
	defer b.counting.Unlock()
	b.count[streamorder.Collectives].AddToBoth(n)
	return streamorder.Several{first, second}, nil
}

// Finished implements backend.Tracker.
func (b *either) Finished(c plan.Coll) uint64 {
	done := [2]uint64{byNCCL: b.Backend.Finished(c), byHost: b.rest.Finished(c)}
	b.counting.Lock()
	defer b.counting.Unlock()
	return b.count[streamorder.QueueOf(c)].Finished(done)
}

// Abort implements backend.Backend.
func (b *either) Abort(cause error) {
	b.Backend.Abort(cause)
	b.rest.Abort(cause)
}

// Close implements backend.Backend.
func (b *either) Close() error {
	return streamorder.Brief(errors.Join(b.Backend.Close(), b.rest.Close()))
}

// registration is memory that no rank maps.
type registration struct {
	b    *either
	once sync.Once
}

// Register implements backend.Registrar. It changes nothing.
func (b *either) Register(context.Context, colligo.Tensor) (backend.Registration, error) {
	return &registration{b: b}, nil
}

// Close waits until the operations that the ranks have enqueued are done on all of them. All ranks call it together.
func (r *registration) Close() (err error) {
	r.once.Do(func() { err = r.b.settle(context.Background()) })
	return err
}

// settle waits until the device is quiet on all ranks.
func (b *either) settle(ctx context.Context) error {
	if b.group.Err() != nil {
		return nil
	}
	b.mu.Lock()
	p, err := b.end(ctx, &backend.Call{Coll: plan.Barrier, Async: true}, 0)
	b.mu.Unlock()
	if err == nil {
		err = p.Synchronize(ctx)
	}
	if b.group.Err() != nil || b.group.Size() == 1 {
		return err
	}
	return errors.Join(err, backend.Barrier(ctx, b.group))
}
