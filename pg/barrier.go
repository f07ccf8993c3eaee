package pg

import (
	"context"
	"errors"

	"github.com/colligo-go/colligo"
)

// Barrier returns when every rank has called it. The group's earlier collectives on the CPU are over then. It does not wait
// for devices; BarrierOn does. Any error ends the group. c10d: barrier.
func (g *Group) Barrier(ctx context.Context) error {
	return g.run(ctx, g.call().Barrier(colligo.Device{}))
}

// BarrierAsync starts a Barrier. Its Work is done when every rank has come to it. c10d: barrier with async_op.
func (g *Group) BarrierAsync(ctx context.Context) *Work {
	return g.start(ctx, g.newCall().Barrier(colligo.Device{}))
}

// BarrierOn returns when the operations enqueued on a device are done on every rank: those on the caller's stream and those
// of the group. Without a device, or with the CPU, it is a plain Barrier.
//
// A rank works with one device; more are an error of this call alone, and so is a device that does not exist. Any later
// error ends the group. c10d: barrier with device_ids, of which it takes the first.
func (g *Group) BarrierOn(ctx context.Context, devices ...colligo.Device) error {
	g = g.orOutside()
	d := colligo.Device{}
	if len(devices) == 1 {
		d = devices[0]
	}
	o := g.newCall().Barrier(d)
	if len(devices) > 1 {
		o.Failf("a barrier on %d devices, a rank has one", len(devices))
	}
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
	return g.Barrier(ctx)
}
