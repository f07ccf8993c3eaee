package pg

import (
	"fmt"

	"github.com/colligo-go/colligo/plan"
)

// maxLanes is the lanes that collectives may use; the mesh has one more for send and recv.
const maxLanes = 2

// planCacheSize bounds the plans that a group keeps; beyond it the cache starts anew.
const planCacheSize = 256

// planKey is everything that the plan of an even collective depends on within one group.
type planKey struct {
	coll        plan.Coll
	root, count int
	elem        int
}

type planCache map[planKey]*plan.Plan

// planFor returns this rank's plan of a request. Plans of even collectives are kept.
func (g *Group) planFor(r *request) (*plan.Plan, error) {
	key := planKey{r.coll, r.root, r.count, r.elem}
	even := r.counts == nil
	if p := g.plans[key]; p != nil && even {
		return p, nil
	}
	line := choose(g.choices, r.coll, g.Transport(), g.size, r.chosenBy())
	planner, err := plannerNamed(r.coll, line.Algo)
	if err != nil {
		return nil, err
	}
	p, err := planner(plan.Shape{Coll: r.coll, Rank: g.rank, Size: g.size, Root: r.root, Count: r.count, Elem: r.elem,
		Lanes: line.Lanes, Chunk: line.ChunkBytes / r.elem, Counts: r.counts, RecvCounts: r.recv})
	if err != nil {
		return nil, err
	}
	if len(p.Lanes) > maxLanes {
		return nil, fmt.Errorf("plan %s of %v has %d lanes, the mesh has %d", line.Algo, r.coll, len(p.Lanes), maxLanes)
	}
	if even {
		if g.plans == nil || len(g.plans) >= planCacheSize {
			g.plans = planCache{}
		}
		g.plans[key] = p
	}
	return p, nil
}

// chosenBy is the bytes that the table is asked with, the same on all ranks.
func (r *request) chosenBy() int {
	if r.coll == plan.AllToAll { // each rank may have splits of its own, or none
		return 0
	}
	return r.volume()
}
