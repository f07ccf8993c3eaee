package oplog

import (
	"sync"
	"sync/atomic"

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

// Traffic counts what passes between this rank and its peers. A collective costs one atomic addition: the runs of its plan are counted,
// and the plan tells the bytes when somebody asks. Sends and receives are counted one by one.
type Traffic struct {
	rank, size int
	last       *runs // whoever calls Ran owns it

	mu       sync.Mutex
	plans    map[*plan.Plan]*runs
	past     []Peer // of plans that are no longer kept
	messages atomic.Pointer[[]messages]
}

// runs is how often a plan has been run to its end.
type runs struct {
	plan  *plan.Plan
	times atomic.Uint64
}

// messages are the sends to and the receives from one peer.
type messages struct{ sentBytes, sent, receivedBytes, received atomic.Uint64 }

// Ran counts a collective that is done by its plan. One goroutine at a time calls it.
func (t *Traffic) Ran(p *plan.Plan) {
	if t.last == nil || t.last.plan != p {
		t.last = t.of(p)
	}
	t.last.times.Add(1)
}

// of returns the runs of a plan.
func (t *Traffic) of(p *plan.Plan) *runs {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.plans[p]
	if r != nil {
		return r
	}
	if t.plans == nil || len(t.plans) >= keptPlans {
		t.past = t.sum()
		t.plans = map[*plan.Plan]*runs{}
	}
	r = &runs{plan: p}
	t.plans[p] = r
	return r
}

// sum adds up what plans have moved. The caller holds t.mu.
func (t *Traffic) sum() []Peer {
	all := make([]Peer, t.size)
	copy(all, t.past)
	one := make([]Peer, t.size)
	for p, r := range t.plans {
		times := r.times.Load()
		if times == 0 {
			continue
		}
		clear(one)
		moved(one, p)
		for peer := range all {
			all[peer].add(one[peer], times)
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
func (t *Traffic) message(send bool, peer, bytes int) {
	if peer < 0 || peer >= t.size || peer == t.rank {
		return
	}
	m := &t.room()[peer]
	if send {
		m.sentBytes.Add(uint64(bytes))
		m.sent.Add(1)
	} else {
		m.receivedBytes.Add(uint64(bytes))
		m.received.Add(1)
	}
}

// room returns the counts of messages by peer. Groups without sends and receives have none.
func (t *Traffic) room() []messages {
	if m := t.messages.Load(); m != nil {
		return *m
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.messages.Load() == nil {
		all := make([]messages, t.size)
		t.messages.Store(&all)
	}
	return *t.messages.Load()
}

// Peers returns the counts by peer. An operation that ends meanwhile may be there in part.
func (t *Traffic) Peers() []Peer {
	t.mu.Lock()
	all := t.sum()
	t.mu.Unlock()
	if m := t.messages.Load(); m != nil {
		for peer := range all {
			one := &(*m)[peer]
			all[peer].add(Peer{one.sentBytes.Load(), one.sent.Load(), one.receivedBytes.Load(), one.received.Load()}, 1)
		}
	}
	return all
}
