package pg

import (
	"context"

	"github.com/colligo-go/colligo/plan"
)

// Barrier returns when every rank has called it. c10d: barrier.
func (g *Group) Barrier(ctx context.Context) error { return g.run(ctx, g.barrier()) }

// BarrierAsync starts a Barrier.
func (g *Group) BarrierAsync(ctx context.Context) *Work { return g.start(ctx, g.barrier()) }

func (g *Group) barrier() request { return request{coll: plan.Barrier, size: g.size, elem: 1} }
