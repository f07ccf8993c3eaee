package pg

import (
	"context"
	"math"

	"github.com/colligo-go/colligo"
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

// ObjectsOf returns Config.MaxObject, or its default, and Config.ObjectDevice. They are the bytes that one call may take for
// what other ranks announce, and the device on which objects travel. No twin: c10d asks the backend for the device and has
// no limit.
func ObjectsOf(g *Group) (limit int64, device colligo.Device) {
	c := &g.orOutside().config
	if c.MaxObject > 0 {
		return min(c.MaxObject, math.MaxInt), c.ObjectDevice
	}
	return DefaultMaxObject, c.ObjectDevice
}

// AllReduceAs reduces t as Group.AllReduce does. Recorder, metrics and hooks know it as an operation of another type. No
// twin: c10d's backends name their works themselves.
func AllReduceAs(ctx context.Context, g *Group, kind OpType, t colligo.Tensor, by colligo.ReduceOp) error {
	o := g.call().AllReduce(t, by)
	o.As(op.Type(kind))
	return g.run(ctx, o)
}
