package pg

import (
	"context"

	"github.com/colligo-go/colligo/pg/tuning"
	"github.com/colligo-go/colligo/plan"
)

// ownContext marks the calls under a context as those of pg itself, which are not recorded and not counted.
type ownContext struct{ context.Context }

type ownKey struct{}

// Value tells that the call is pg's own.
func (c *ownContext) Value(key any) any {
	if key == (ownKey{}) {
		return c
	}
	return c.Context.Value(key)
}

func asOwn(ctx context.Context) context.Context { return &ownContext{ctx} }

func isOwn(ctx context.Context) bool { return ctx != nil && ctx.Value(ownKey{}) != nil }

// Algorithm returns the name of the planner that a collective of so many bytes would use on the CPU. For a send or receive
// it is empty. An all_to_all is chosen as one of 0 bytes: its ranks may have different splits. NCCL:
// NCCL_DEBUG_SUBSYS=TUNING logs it.
func (g *Group) Algorithm(c plan.Coll, bytes int) string {
	g = g.orOutside()
	return tuning.Pick(g.config.Tuning, c, g.Transport(), g.size, bytes).Algo
}

// Tuning returns a copy of the rules by which the group picks planners on the CPU; the first that fits counts. NCCL: the
// tables of its tuner plugin.
func (g *Group) Tuning() []tuning.Rule {
	return append([]tuning.Rule(nil), g.orOutside().config.Tuning...)
}
