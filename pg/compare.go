package pg

import (
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/internal/control"
	"github.com/colligo-go/colligo/plan"
)

// suspicion is how long a collective stands still before its rank tells the others what it has called. Most mismatches
// show in a frame; this finds those in which nobody looks at the link that carries the odd one.
const suspicion = 2 * time.Second

// suspect tells the peers what this rank has called in a collective that stands still, each time after as long again.
func (g *Group) suspect(op *operation, now time.Time) {
	op.suspectAt = now.Add(now.Sub(op.began))
	g.control.Tell(&control.Message{Kind: control.Called, Seq: op.seq, Call: describe(g.call(op))})
}

// compare holds what a peer has called against what this rank called with the same number, if it has come that far.
func (g *Group) compare(peer int, m *control.Message) {
	ours, ok := g.control.Progress.At(m.Seq)
	if !ok || describe(ours) == m.Call {
		return
	}
	g.failAt(&colligo.OpError{Group: g.name, Op: plan.Coll(ours.Coll).String(), Seq: numberOf(m.Seq), Rank: g.rank, Peer: peer,
		Lane: colligo.NoRank, Step: colligo.NoRank, Err: &mismatch{peer: peer, ours: ours, said: m.Call}}, m.Seq, true)
}
