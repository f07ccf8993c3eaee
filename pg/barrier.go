package pg

import (
	"context"
	"errors"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/internal/op"
)

// Barrier returns when every rank has called it. The group's earlier collectives on the CPU are over then. It does not wait
// for devices; BarrierOn does. With ranks of PyTorch and no backend for the CPU it is a BarrierOn of the group's device. Any error ends
// the group. c10d: barrier.
func (g *Group) Barrier(ctx context.Context) error {
	if d := usualDevice(g.orOutside()); d.Kind != colligo.CPU {
		return g.BarrierOn(ctx, d)
	}
	return g.run(ctx, g.call().Barrier(colligo.Device{}))
}

// BarrierAsync starts a Barrier. Its Work is done when every rank has come to it. c10d: barrier with async_op.
func (g *Group) BarrierAsync(ctx context.Context) *Work {
	return g.start(ctx, g.newCall().Barrier(usualDevice(g.orOutside())))
}

// BarrierOn returns when the operations enqueued on a device are done on every rank: those on the caller's stream and those
// of the group. Without a device, or with the CPU, it is a plain Barrier.
//
// A rank works with one device; more are an error of this call alone, and so is a device that does not exist. Any later
// error ends the group. c10d: barrier with device_ids, of which it takes the first.
func (g *Group) BarrierOn(ctx context.Context, devices ...colligo.Device) error {
	g = g.orOutside()
	o := barrierOn(g.newCall(), devices)
	if o.OnCPU() {
		return g.run(ctx, o)
	}
	w := g.start(ctx, o)
	if err := w.Synchronize(ctx); err != nil {
		if w.op.Over {
			return err // it was refused
		}
		err = g.explain(o, 0, err, false)
		if errors.Is(ctx.Err(), context.Canceled) { // the others wait for this rank; deadlines are the watchdog's to find
			g.fail(err, true)
		}
		return err
	}
	if speaksTorch(g) { // for which it is an all_reduce of all ranks on the device
		return nil
	}
	return g.Barrier(ctx)
}

// barrierOn makes o a barrier on the device that a list names, on the CPU if it names none.
func barrierOn(o *op.Op, devices []colligo.Device) *op.Op {
	d := colligo.Device{}
	if len(devices) == 1 {
		d = devices[0]
	}
	if o.Barrier(d); len(devices) > 1 {
		o.Failf("a barrier on %d devices, a rank has one", len(devices))
	}
	return o
}

// BarrierOnAsync starts a Group.BarrierOn. Its Work is done when the operations enqueued on a device are done on every rank. The
// group's later collectives on the CPU wait for it. c10d: barrier with device_ids and async_op.
func BarrierOnAsync(ctx context.Context, g *Group, devices ...colligo.Device) *Work {
	g = g.orOutside()
	o := barrierOn(g.newCall(), devices)
	w := g.start(ctx, o)
	if o.OnCPU() || g.size == 1 || w.op.Over || speaksTorch(g) {
		return w
	}
	all := g.newCall().Barrier(colligo.Device{})
	all.More().After = w.pending.Done
	g.handler.Go(func() {
		_ = w.pending.Synchronize(context.Background()) // an error ends the group, and with it the barrier
		g.handler.wake()
	})
	return g.start(ctx, all)
}
