package host

import (
	"fmt"
	"maps"
	"slices"

	"github.com/colligo-go/colligo/pg/internal/op"
	"github.com/colligo-go/colligo/pg/tuning"
	"github.com/colligo-go/colligo/plan"
)

// Lanes is the lanes that a group needs of its mesh: those of collectives, and one for sends and receives.
const Lanes = 1 + tuning.MaxLanes

// PlanCacheSize bounds the plans that a group keeps; beyond it the cache starts anew.
const PlanCacheSize = 256

// planKey is everything that the plan of an even collective depends on within one group.
type planKey struct {
	coll        plan.Coll
	root, count int
	elem        int
}

type planCache map[planKey]*plan.Plan

// planFor returns this rank's plan of an operation. Plans of even collectives are kept.
func (b *Backend) planFor(o *op.Op) (*plan.Plan, error) {
	key := planKey{o.Coll, int(o.Root), o.Count, o.Elem()}
	r := o.Rare()
	even := r.Counts == nil
	if even && b.last != nil && key == b.lastKey {
		return b.last, nil
	}
	if even {
		if p := b.plans[key]; p != nil {
			b.last, b.lastKey = p, key
			return p, nil
		}
	}
	rule := tuning.Pick(b.Tuning, o.Coll, tuning.Place{Medium: b.Medium(), Size: b.Size, Crowded: b.crowded}, o.TuningBytes())
	planner, err := tuning.Planner(o.Coll, rule.Algo)
	if err != nil {
		return nil, err
	}
	p, err := planner(plan.Shape{Coll: o.Coll, Rank: b.Rank, Size: b.Size, Root: key.root, Count: o.Count, Elem: key.elem,
		Lanes: rule.Lanes, Chunk: rule.ChunkBytes / key.elem, Counts: r.Counts, RecvCounts: r.Recvs})
	if err != nil {
		return nil, err
	}
	if len(p.Lanes) > tuning.MaxLanes {
		return nil, fmt.Errorf("plan %s of %v has %d lanes, the mesh has %d", rule.Algo, o.Coll, len(p.Lanes), tuning.MaxLanes)
	}
	if even {
		if b.plans == nil || len(b.plans) >= PlanCacheSize {
			b.plans = planCache{}
		}
		b.plans[key] = p
	}
	return p, nil
}

// Plans returns the plans that are kept. The progress engine must not run meanwhile.
func (b *Backend) Plans() []*plan.Plan { return slices.Collect(maps.Values(b.plans)) }
