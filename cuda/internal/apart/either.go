package apart

import (
	"context"
	"errors"
	"maps"
	"sync"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda/internal/streamorder"
	"github.com/colligo-go/colligo/cuda/nccl"
	"github.com/colligo-go/colligo/pg/backend"
	"github.com/colligo-go/colligo/plan"
)

// either carries a collective by NCCL, and stages messages and what NCCL lacks. NCCL's backend carries out Read, Stage and Unstage.
type either struct {
	streamorder.Pair
	nccl  nccl.Backend
	group backend.Host
	block block // under the pair's lock
}

// The two backends.
const (
	byNCCL = iota
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
	_ backend.Shared    = (*either)(nil)

	_ backend.Communicating = (*either)(nil)
)

// carrier returns which backend carries a call.
func (b *either) carrier(c *backend.Call) int {
	const inBlock = true // where neither plans nor two levels carry what the library lacks
	if streamorder.QueueOf(c.Coll) != streamorder.Collectives || c.Coll.Reduces() && b.nccl.Refuses(backend.ReductionOf(c, inBlock)) != nil {
		return byHost
	}
	return byNCCL
}

// Communicators implements backend.Communicating.
func (b *either) Communicators() map[string]map[string]string { return b.nccl.Communicators() }

// Run implements backend.Backend.
func (b *either) Run(ctx context.Context, c *backend.Call) (backend.Pending, error) {
	b.Lock()
	defer b.Unlock()
	switch {
	case b.block.open:
		b.block.ctx, b.block.calls = append(b.block.ctx, ctx), append(b.block.calls, *c)
		return nil, nil
	case c.Coll == plan.Barrier:
		return b.Barrier(ctx, c, 1)
	}
	return b.Give(ctx, c, b.carrier(c))
}

// Carried implements backend.Shared. Collectives in two levels are counted apart from those that NCCL carries alone.
func (b *either) Carried() map[string]uint64 {
	n := b.Pair.Carried()
	all := map[string]uint64{backend.NCCL: n[byNCCL], "staged": n[byHost]}
	maps.Copy(all, b.nccl.Carried())
	return all
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
	b.Lock()
	p, err := b.Barrier(ctx, &backend.Call{Coll: plan.Barrier, Async: true}, 0)
	b.Unlock()
	if err == nil {
		err = p.Synchronize(ctx)
	}
	if b.group.Err() != nil || b.group.Size() == 1 {
		return err
	}
	return errors.Join(err, backend.Barrier(ctx, b.group))
}
