package peer

import (
	"fmt"

	"github.com/colligo-go/colligo/plan"
)

// ofH200 is the multiprocessors of the devices that Explain speaks of.
const ofH200 = 132

// Explain returns the line of the table that an operation follows, its way changed to the one that the heap has room for.
// bytes are those of Choice.MaxBytes; linked says that all devices are linked by NVLink. Registered tensors have lines of
// their own, which it leaves out. Nothing is opened.
func (o Options) Explain(coll plan.Coll, ranks, bytes int, linked bool) (Choice, error) {
	if err := o.fill(); err != nil {
		return Choice{}, err
	}
	if ranks < 1 || ranks > maxRanks || bytes < 0 {
		return Choice{}, fmt.Errorf("%v of %d bytes among %d ranks: groups on devices have 1 to %d ranks", coll, bytes, ranks, maxRanks)
	}
	if !Packets.Serves(coll) {
		return Choice{}, fmt.Errorf("%v follows no line of the table", coll)
	}
	l, err := newLayout(ranks, o.Memory)
	if err != nil {
		return Choice{}, err
	}
	b := &backend{size: ranks, options: o, layout: l, linked: linked, multiprocessors: forCollectives(ofH200)}
	b.sortChoices()
	c := b.pick(coll, bytes)
	if coll == plan.AllReduce {
		c.Way = b.fitting(&c, bytes, up((bytes+ranks-1)/ranks, 16))
		return c, nil
	}
	switch {
	case coll == plan.Broadcast && (c.Way == Rows || c.Way == Follow):
		c.Way = b.fittingChain(&c, bytes)
	case c.Way == Packets && bytes > l.packetSlot/2:
		c.Way = Tiles
	case (c.Way == Ring || c.Way == Follow) && bytes < leastPart:
		if c.Way = Turns; !Turns.Serves(coll) {
			c.Way = Tiles
		}
	}
	return c, nil
}
