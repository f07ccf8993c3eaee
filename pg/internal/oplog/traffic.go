package oplog

import (
	"maps"
	"slices"

	"github.com/colligo-go/colligo/plan"
)

// Peer is what has passed between this rank and one peer in operations that are done. A message is a send or a receive, or what one
// step of a plan sends or receives at once.
type Peer struct{ SentBytes, SentMessages, ReceivedBytes, ReceivedMessages uint64 }

// add adds other counts.
func (p *Peer) add(o Peer, times uint64) {
	p.SentBytes += times * o.SentBytes
	p.SentMessages += times * o.SentMessages
	p.ReceivedBytes += times * o.ReceivedBytes
	p.ReceivedMessages += times * o.ReceivedMessages
}

// keptPlans bounds the plans whose runs are counted apart.
const keptPlans = 256

// traffic counts what passes between this rank and its peers. The runs of each plan are counted, and the plan tells the bytes
// when somebody asks. Sends and receives are counted one by one.
type traffic struct {
	rank, size int
	last       *runs // of the plan that was run last
	plans      map[*plan.Plan]*runs
	past       []Peer // of plans that are no longer kept
	messages   []Peer // of sends and receives; groups without them have none
}

// runs is how often a plan has been run to its end.
type runs struct {
	plan  *plan.Plan
	times uint64
}

// ran counts a collective that is done by its plan.
func (t *traffic) ran(p *plan.Plan) {
	if t.last == nil || t.last.plan != p {
		t.last = t.of(p)
	}
	t.last.times++
}

// of returns the runs of a plan.
func (t *traffic) of(p *plan.Plan) *runs {
	r := t.plans[p]
	if r != nil {
		return r
	}
	if t.plans == nil || len(t.plans) >= keptPlans {
		t.past = t.ofPlans()
		t.plans = map[*plan.Plan]*runs{}
	}
	r = &runs{plan: p}
	t.plans[p] = r
	return r
}

// ofPlans adds up what plans have moved.
func (t *traffic) ofPlans() []Peer {
	all := make([]Peer, t.size)
	copy(all, t.past)
	one := make([]Peer, t.size)
	for p, r := range t.plans {
		clear(one)
		moved(one, p)
		for peer := range all {
			all[peer].add(one[peer], r.times)
		}
	}
	return all
}

// moved adds what one run of a plan sends to and receives from each peer.
func moved(all []Peer, p *plan.Plan) {
	elem := p.Shape.Elem
	for _, lane := range p.Lanes {
		for i := range lane {
			s := &lane[i]
			if s.To != plan.None && s.To != p.Shape.Rank {
				all[s.To].add(Peer{SentBytes: uint64(s.Src.Len * elem), SentMessages: 1}, 1)
			}
			if s.From != plan.None && s.From != p.Shape.Rank {
				all[s.From].add(Peer{ReceivedBytes: uint64(s.Dst.Len * elem), ReceivedMessages: 1}, 1)
			}
		}
	}
}

// message counts a send or receive that is done. It leaves out messages to this rank itself, and messages whose peer is not known.
func (t *traffic) message(send bool, peer, bytes int) {
	if peer < 0 || peer >= t.size || peer == t.rank {
		return
	}
	if t.messages == nil {
		t.messages = make([]Peer, t.size)
	}
	if send {
		t.messages[peer].add(Peer{SentBytes: uint64(bytes), SentMessages: 1}, 1)
	} else {
		t.messages[peer].add(Peer{ReceivedBytes: uint64(bytes), ReceivedMessages: 1}, 1)
	}
}

// copied returns the counts at this moment, from which peers may add up while further operations are counted.
func (t *traffic) copied() traffic {
	c := traffic{size: t.size, plans: maps.Clone(t.plans), past: t.past, messages: slices.Clone(t.messages)}
	for p, r := range c.plans {
		c.plans[p] = &runs{p, r.times}
	}
	return c
}

// peers returns the counts by peer.
func (t *traffic) peers() []Peer {
	all := t.ofPlans()
	for peer, m := range t.messages {
		all[peer].add(m, 1)
	}
	return all
}
