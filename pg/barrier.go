package pg

import (
	"context"
	"errors"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/plan"
)

// Barrier returns when every rank has called it. c10d: barrier.
func (g *Group) Barrier(ctx context.Context) error { return g.run(ctx, g.barrier()) }

// BarrierAsync starts a Barrier.
func (g *Group) BarrierAsync(ctx context.Context) *Work { return g.start(ctx, g.barrier()) }

// BarrierOn returns when what has been enqueued on a device, on the caller's stream or for the group, is done on every
// rank. Without a device, or with the CPU, it is Barrier. A rank works with one device: more are an error.
// c10d: barrier with device_ids, of which it takes the first.
func (g *Group) BarrierOn(ctx context.Context, devices ...colligo.Device) error {
	g = g.orOutside()
	r := g.barrier()
	if len(devices) > 1 {
		r.failf("a barrier on %d devices, a rank has one", len(devices))
	}
	if len(devices) == 1 {
		if r.device = devices[0]; r.device.Index < 0 {
			r.failf("there is no device %v", r.device)
		}
	}
	if r.device.Kind == colligo.CPU {
		return g.run(ctx, r)
	}
	if done, err := g.trivial(&r); done {
		return err
	}
	p, err := g.onDevice(ctx, &r, true)
	if err != nil {
		return err
	}
	if err := p.Synchronize(ctx); err != nil {
		err = g.explain(&r, 0, err, false)
		if errors.Is(ctx.Err(), context.Canceled) { // the others wait for this rank; deadlines are the watchdog's to find
			g.fail(err, true)
		}
		return err
	}
	return g.Barrier(ctx)
}

func (g *Group) barrier() request {
	return request{coll: plan.Barrier, size: g.orOutside().size, elem: 1}
}
