package pg

import (
	"sync"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/plan"
	"github.com/colligo-go/colligo/transport"
)

// suspicion is how long a collective stands still before its rank tells the others what it has called. Most mismatches
// show in a frame; this finds those in which nobody looks at the link that carries the odd one.
const suspicion = 2 * time.Second

// remembered is how many collectives back a rank can compare.
const remembered = 32

// entered is what this rank has called last, in a ring.
type entered struct {
	sync.Mutex
	n     uint64 // calls so far
	calls [remembered]transport.Call
}

func (e *entered) set(c transport.Call) {
	e.Lock()
	e.calls[e.n%remembered] = c
	e.n++
	e.Unlock()
}

// call is set of a request, with its place.
func (e *entered) call(g *Group, r *request, seq uint64) {
	e.Lock()
	g.identify(&e.calls[e.n%remembered], r, seq)
	e.n++
	e.Unlock()
}

// at returns the call at a place, if it is remembered.
func (e *entered) at(place uint64) (transport.Call, bool) {
	e.Lock()
	defer e.Unlock()
	for _, c := range e.calls {
		if c.Seq == place && place > 0 {
			return c, true
		}
	}
	return transport.Call{}, false
}

// newest returns the call entered last; its Seq is 0 if there was none.
func (e *entered) newest() transport.Call {
	e.Lock()
	defer e.Unlock()
	return e.calls[(e.n-1)%remembered]
}

// suspect tells the peers what this rank has called in a collective that stands still, each time after as long again.
func (g *Group) suspect(op *operation, now time.Time) {
	op.suspectAt = now.Add(now.Sub(op.began))
	g.tell(note{Kind: noteCalled, Seq: op.seq, Call: describe(g.call(op))})
}

// compare holds what a peer has called against what this rank called with the same number, if it has come that far.
func (g *Group) compare(peer int, n note) {
	ours, ok := g.entered.at(n.Seq)
	if !ok || describe(ours) == n.Call {
		return
	}
	g.failAt(&colligo.OpError{Group: g.name, Op: plan.Coll(ours.Coll).String(), Seq: numberOf(n.Seq), Rank: g.rank, Peer: peer,
		Lane: colligo.NoRank, Step: colligo.NoRank, Err: &mismatch{peer: peer, ours: ours, said: n.Call}}, n.Seq, true)
}
