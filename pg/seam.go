package pg

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/backend"
	"github.com/colligo-go/colligo/pg/internal/op"
	"github.com/colligo-go/colligo/plan"
)

// seam is a group as its backends see it.
type seam struct{ g *Group }

var (
	_ backend.Host = (*seam)(nil)
	_ backend.Dup  = (*duplicate)(nil)
)

// Name implements backend.Host.
func (s *seam) Name() string { return s.g.name }

// Rank implements backend.Host.
func (s *seam) Rank() int { return s.g.rank }

// Size implements backend.Host.
func (s *seam) Size() int { return s.g.size }

// Transport implements backend.Host.
func (s *seam) Transport() string { return s.g.Transport() }

// Timeout implements backend.Host.
func (s *seam) Timeout() time.Duration { return s.g.Timeout() }

// Log implements backend.Host.
func (s *seam) Log() *slog.Logger { return s.g.log }

// Err implements backend.Host.
func (s *seam) Err() error { return s.g.Err() }

// Fail implements backend.Host.
func (s *seam) Fail(err error) { s.g.fail(err, true) }

// Count implements backend.Host.
func (s *seam) Count(ctx context.Context, key string, n int64) (int64, error) {
	return s.g.forming.Store.Add(ctx, key, n)
}

// Do implements backend.Host.
func (s *seam) Do(ctx context.Context, c *backend.Call) error {
	o, err := opOf(s.g.call(), c)
	if err != nil {
		return err
	}
	return s.g.run(asOwn(ctx), o)
}

// opOf makes o the operation of a call on tensors of the CPU.
func opOf(o *op.Op, c *backend.Call) (*op.Op, error) {
	switch c.Coll {
	case plan.AllReduce:
		return o.AllReduce(c.Out, c.Op), nil
	case plan.Reduce:
		return o.ReduceTo(c.In, c.Root, c.Op), nil
	case plan.Broadcast:
		t := c.Out
		if int(o.Rank) == c.Root {
			t = c.In
		}
		return o.Broadcast(t, c.Root), nil
	case plan.AllGather:
		if c.Outs == nil {
			return o.AllGatherInto(c.Out, c.In), nil
		}
		return o.AllGather(c.Outs, c.In), nil
	case plan.ReduceScatter:
		return o.ReduceScatter(c.Out, c.Ins, c.Op), nil
	case plan.AllToAll:
		return o.AllToAll(c.Outs, c.Ins), nil
	case plan.Gather:
		return o.Gather(c.Outs, c.In, c.Counts, c.Root), nil
	case plan.Scatter:
		return o.Scatter(c.Out, c.Ins, c.Counts, c.Root), nil
	case plan.Barrier:
		return o.Barrier(colligo.Device{}), nil
	case plan.Send:
		return o.Send(c.In, c.Peer, c.Tag), nil
	case plan.Recv:
		return o.Recv(c.Out, c.Peer, c.Tag), nil
	}
	return nil, fmt.Errorf("pg: %v on a backend's behalf", c.Coll)
}

// Dup implements backend.Host.
func (s *seam) Dup(ctx context.Context, limit time.Duration) (backend.Dup, error) {
	n, err := s.g.dup(ctx, limit)
	if err != nil {
		return nil, err
	}
	return &duplicate{seam{n}}, nil
}

// duplicate is a group that a backend has for itself.
type duplicate struct{ seam }

// SetTimeout implements backend.Dup.
func (d *duplicate) SetTimeout(limit time.Duration) error { return d.g.SetTimeout(limit) }

// Close implements backend.Dup.
func (d *duplicate) Close() error { return d.g.Close() }

// BackendOf returns the group's backend for a device. If no operation has opened it yet it opens it, and then all ranks call
// it together. Packages that extend a backend reach it by this; programs have no need of it. Errors leave the group as it
// was, unless the backend says otherwise. c10d: _get_backend of a ProcessGroup.
func BackendOf(ctx context.Context, g *Group, d colligo.Device) (backend.Backend, error) {
	if !g.IsMember() {
		return nil, ErrNotMember
	}
	g.devices.order.Lock()
	defer g.devices.order.Unlock()
	if b := g.devices.get(d); b != nil {
		return b, nil
	}
	if err := g.Err(); err != nil {
		return nil, err
	}
	return (*onDevice)(g).backendFor(ctx, d)
}

// Register makes the memory of a contiguous tensor on a device known to all ranks of the group, so that collectives on it
// are faster. All ranks call it together, with as many bytes. The memory must stay until the Registration is closed.
//
// It fails on all ranks or on none, and a failure leaves the group as it was. Tensors on the CPU and backends that register
// nothing are refused. c10d: register_mem_pool of ProcessGroupNCCL. NCCL: ncclCommWindowRegister.
func (g *Group) Register(ctx context.Context, t colligo.Tensor) (backend.Registration, error) {
	if !g.IsMember() {
		return nil, fmt.Errorf("pg: registering %v: %w", t, ErrNotMember)
	}
	if !t.Valid() || !t.Contiguous() || t.Device().Kind == colligo.CPU {
		return nil, fmt.Errorf("pg: registering %v: only contiguous tensors on a device can be", t)
	}
	b, err := BackendOf(ctx, g, t.Device())
	if err != nil {
		return nil, fmt.Errorf("pg: registering %v: %w", t, err)
	}
	r, ok := b.(backend.Registrar)
	if !ok {
		return nil, fmt.Errorf("pg: registering %v: the group's backend for %v registers nothing", t, t.Device())
	}
	return r.Register(ctx, t)
}
