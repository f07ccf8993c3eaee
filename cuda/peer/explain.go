package peer

import (
	"fmt"

	"github.com/colligo-go/colligo/cuda/peer/internal/symheap"
	seam "github.com/colligo-go/colligo/pg/backend"
	"github.com/colligo-go/colligo/plan"
)

// ofH200 is the multiprocessors of the devices that Explain speaks of.
const ofH200 = 132

// Explain returns the rule that an operation follows, its algorithm changed to the one that fits. The bytes are those of
// Rule.MaxBytes. Linked devices have NVLink between all of them. Parts are of one length. Registered tensors have rules of
// their own, which Explain leaves out. Nothing is opened.
func (o Options) Explain(coll plan.Coll, ranks, bytes int, linked bool) (Rule, error) {
	if err := o.fill(); err != nil {
		return Rule{}, err
	}
	if ranks < 1 || ranks > symheap.MaxRanks || bytes < 0 {
		return Rule{}, fmt.Errorf("%v of %d bytes among %d ranks: groups on devices have 1 to %d ranks", coll, bytes, ranks, symheap.MaxRanks)
	}
	if lastRule(coll) == nil {
		return Rule{}, fmt.Errorf("%v follows no rule of the table", coll)
	}
	l, err := symheap.NewLayout(ranks, o.Memory)
	if err != nil {
		return Rule{}, err
	}
	x := &launcher{size: ranks, layout: &l, linked: linked, multiprocessors: forCollectives(ofH200)}
	x.tune(o.Rules)
	of := &operation{Call: &seam.Call{Coll: coll}, bytes: bytes, part: up((bytes+ranks-1)/ranks, 16), even: true}
	a := x.choose(of)
	r := *of.rule
	r.Algorithm = a.name
	return r, nil
}
