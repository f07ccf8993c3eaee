package pg

import (
	"context"
	"fmt"
	"math"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/backend"
	"github.com/colligo-go/colligo/pg/internal/op"
)

// The functions below, and BackendOf, are for packages that extend pg with operations of their own, as pg/object and
// pg/sparse do. Programs have no need of them.

// Fail ends a group with an error, on all ranks. Operations that were called before may still end well; the next one fails.
// A package that extends pg calls it when this rank cannot join what its peers go on with. On a rank outside the group it
// does nothing.
func Fail(g *Group, err error) {
	if g.IsMember() {
		g.failAt(err, g.next(), true)
	}
}

// ObjectsOf returns the bytes that one call may take for what other ranks announce, and the device on which objects travel:
// Config.MaxObject, or its default, and Config.ObjectDevice.
func ObjectsOf(g *Group) (limit int64, device colligo.Device) {
	c := &g.orOutside().config
	if c.MaxObject > 0 {
		return min(c.MaxObject, math.MaxInt), c.ObjectDevice
	}
	return DefaultMaxObject, c.ObjectDevice
}

// AllReduceAs is Group.AllReduce that recorder, metrics and hooks know as an operation of another type.
func AllReduceAs(ctx context.Context, g *Group, kind OpType, t colligo.Tensor, by colligo.ReduceOp) error {
	o := g.call().AllReduce(t, by)
	o.As(op.Type(kind))
	return g.run(ctx, o)
}

// BackendOf returns the group's backend for a device. If no operation has opened it yet it opens it, and all ranks call it
// together. Packages that extend a backend reach it by this; programs have no need of it.
func BackendOf(ctx context.Context, g *Group, d colligo.Device) (backend.Backend, error) {
	if !g.IsMember() {
		return nil, ErrNotMember
	}
	return (*onDevice)(g).opened(ctx, d)
}

// Register makes the memory of a contiguous tensor known to all ranks of the group, so that collectives on it are faster. All
// ranks call it together, with as many bytes. It fails on all of them or on none, and a failure leaves the group as it was.
// c10d: register_mem_pool of ProcessGroupNCCL.
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
