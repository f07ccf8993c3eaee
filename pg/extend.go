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
// A package that extends pg calls it when this rank cannot join the next operation of its peers. On a rank outside the group
// it does nothing. No twin: c10d's object collectives leave their peers waiting.
func Fail(g *Group, err error) {
	if g.IsMember() {
		g.failAt(err, g.next(), true)
	}
}

// SequenceOf returns the number of the collective that the group has called last, 0 before the first. Works and the flight
// recorder have the same numbers. c10d: _get_sequence_number_for_group.
func SequenceOf(g *Group) uint64 {
	if !g.IsMember() {
		return 0
	}
	g.state.mu.Lock()
	defer g.state.mu.Unlock()
	return g.ops.Collectives()
}

// ObjectsOf returns Config.MaxObject, or its default, and Config.ObjectDevice. They are the bytes that one call may take for
// what other ranks announce, and the device on which objects travel. No twin: c10d asks the backend for the device and has
// no limit.
func ObjectsOf(g *Group) (limit int64, device colligo.Device) {
	c := &g.orOutside().config
	limit, device = DefaultMaxObject, c.ObjectDevice
	if c.MaxObject > 0 {
		limit = min(c.MaxObject, math.MaxInt)
	}
	if device.Kind == colligo.CPU {
		device = usualDevice(g.orOutside())
	}
	return limit, device
}

// AllReduceAs reduces t as Group.AllReduce does. Recorder, metrics and hooks know it as an operation of another type. No
// twin: c10d's backends name their works themselves.
func AllReduceAs(ctx context.Context, g *Group, kind OpType, t colligo.Tensor, by colligo.ReduceOp) error {
	o := g.call().AllReduce(t, by)
	o.As(op.Type(kind))
	return g.run(ctx, o)
}

// AllGatherSparse gathers as Group.AllGather does, as a part of a sparse all_reduce with ranks of PyTorch. The first part gathers to
// one tensor; the parts after it gather to lists, on the slot of the first. No twin in c10d.
func AllGatherSparse(ctx context.Context, g *Group, outs []colligo.Tensor, in colligo.Tensor) error {
	o := g.call()
	if len(outs) == 1 && g.Size() > 1 {
		o.AllGatherInto(outs[0], in)
	} else {
		o.AllGather(outs, in)
	}
	o.As(op.AllReduceSparse)
	return g.run(ctx, o)
}

// BackendOf returns the group's backend for a device. If no operation has opened it yet it opens it, and then all ranks call
// it together. Packages that extend a backend reach it by this; programs have no need of it. Errors leave the group as it
// was, unless the backend says otherwise. c10d: _get_backend of a ProcessGroup.
func BackendOf(ctx context.Context, g *Group, d colligo.Device) (backend.Backend, error) {
	if !g.IsMember() {
		return nil, ErrNotMember
	}
	return (*onDevice)(g).opened(ctx, d)
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
