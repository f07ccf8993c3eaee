package peer

import (
	"fmt"

	"github.com/colligo-go/colligo/plan"
)

// ofH200 is the multiprocessors of the devices that Explain speaks of.
const ofH200 = 132

// Explain returns the rule that an operation follows, its algorithm changed to the one that the symmetric heap has room for.
// bytes are those of Rule.MaxBytes; linked says that all devices are linked by NVLink. Registered tensors have rules of
// their own, which it leaves out. Nothing is opened.
func (o Options) Explain(coll plan.Coll, ranks, bytes int, linked bool) (Rule, error) {
	if err := o.fill(); err != nil {
		return Rule{}, err
	}
	if ranks < 1 || ranks > maxRanks || bytes < 0 {
		return Rule{}, fmt.Errorf("%v of %d bytes among %d ranks: groups on devices have 1 to %d ranks", coll, bytes, ranks, maxRanks)
	}
	if !LL.Serves(coll) {
		return Rule{}, fmt.Errorf("%v follows no rule of the table", coll)
	}
	l, err := newLayout(ranks, o.Memory)
	if err != nil {
		return Rule{}, err
	}
	b := &backend{size: ranks, options: o, layout: l, linked: linked, multiprocessors: forCollectives(ofH200)}
	b.sortRules()
	c := b.pick(coll, bytes)
	if coll == plan.AllReduce {
		c.Algorithm = b.fitting(&c, bytes, up((bytes+ranks-1)/ranks, 16))
		return c, nil
	}
	switch {
	case coll == plan.Broadcast && (c.Algorithm == LL128 || c.Algorithm == Fused):
		c.Algorithm = b.fittingChain(&c, bytes)
	case c.Algorithm == LL && bytes > l.llSlot/2:
		c.Algorithm = Tiles
	case (c.Algorithm == CopyRing || c.Algorithm == Fused) && bytes < leastPart:
		if c.Algorithm = Rotation; !Rotation.Serves(coll) {
			c.Algorithm = Tiles
		}
	}
	return c, nil
}
