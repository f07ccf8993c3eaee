package host

import (
	"fmt"

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

// planned is a plan, and whether its payloads stay in their place until the peer has read them.
type planned struct {
	*plan.Plan
	zeroCopy bool
}

type planCache map[planKey]planned

// planFor returns this rank's plan of an operation. Plans of even collectives are kept.
func (b *Backend) planFor(o *op.Op) (planned, error) {
	key := planKey{o.Coll, int(o.Root), o.Count, o.Elem()}
	r := o.Rare()
	even := r.Counts == nil
	if even && b.last.Plan != nil && key == b.lastKey {
		return b.last, nil
	}
	if even {
		if p, ok := b.plans[key]; ok {
			b.last, b.lastKey = p, key
			return p, nil
		}
	}
	rule := tuning.Pick(b.Tuning, o.Coll, tuning.Place{Medium: b.Medium(), Size: b.Size, Crowded: b.crowded}, o.TuningBytes())
	planner, err := tuning.Planner(o.Coll, rule.Algo)
	if err != nil {
		return planned{}, err
	}
	made, err := planner(plan.Shape{Coll: o.Coll, Rank: b.Rank, Size: b.Size, Root: key.root, Count: o.Count, Elem: key.elem,
		Lanes: rule.Lanes, Chunk: rule.ChunkBytes / key.elem, Counts: r.Counts, RecvCounts: r.Recvs})
	if err != nil {
		return planned{}, err
	}
	if len(made.Lanes) > tuning.MaxLanes {
		return planned{}, fmt.Errorf("plan %s of %v has %d lanes, the mesh has %d", rule.Algo, o.Coll, len(made.Lanes), tuning.MaxLanes)
	}
	p := planned{made, tuning.ZeroCopy(rule.Algo)}
	if even {
		if b.plans == nil || len(b.plans) >= PlanCacheSize {
			b.plans = planCache{}
		}
		b.plans[key] = p
	}
	return p, nil
}

// Plans returns the plans that are kept. The progress engine must not run meanwhile.
func (b *Backend) Plans() []*plan.Plan {
	var all []*plan.Plan
	for _, p := range b.plans {
		all = append(all, p.Plan)
	}
	return all
}
