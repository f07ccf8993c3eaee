package gloo

import (
	"math"

	"github.com/colligo-go/colligo/internal/engine"
	"github.com/colligo-go/colligo/plan"
	links "github.com/colligo-go/colligo/transport/gloo"
)

// ahead is how many receives of a lane are posted before their steps begin. Gloo has two. More of them let a peer write on while
// this rank computes.
const ahead = 8

// longAhead is the most bytes of a send that runs ahead: a segment of a ring has no more.
const longAhead = 1 << 20

// port is the engine's way to the links for one collective. Every send and receive of the plan is one message.
type port struct {
	plan  *plan.Plan
	slots func(lane, step int) uint64
	lanes []lane
}

var (
	_ engine.Port  = (*port)(nil)
	_ engine.Eager = (*port)(nil)
)

// lane is how far the messages of one lane have come.
type lane struct {
	mesh   *links.Mesh
	send   links.Send
	step   int // of send, -1 before the first
	posted int // step up to which receives are posted
	recvs  [ahead]links.Receive
	queue  int // receives posted so far
	done   int // of them those that are over
	at     int // step of the oldest that is not
	taken  int // bytes that Arrived has told of
}

// start begins a plan, whose lanes have a tag each from the given one on: it posts the first receives.
func (p *port) start(mesh func(tag uint32) *links.Mesh, tag uint32, pl *plan.Plan, slots func(lane, step int) uint64) error {
	p.plan, p.slots = pl, slots
	if cap(p.lanes) < len(pl.Lanes) {
		p.lanes = make([]lane, len(pl.Lanes))
	}
	p.lanes = p.lanes[:len(pl.Lanes)]
	for i := range p.lanes {
		l := &p.lanes[i]
		l.mesh, l.step, l.posted, l.queue, l.done = mesh(tag+uint32(i)), -1, 0, 0, 0
		if err := p.post(i); err != nil {
			return err
		}
		l.at = p.next(i, 0)
		if p.tells(i) {
			continue
		}
		if err := l.mesh.Flush(); err != nil {
			return classify(err)
		}
	}
	return nil
}

// tells reports whether the first step of a lane sends to the peer from which it receives. Its message takes the notices along, so that
// the peer wakes once for both.
func (p *port) tells(lane int) bool {
	steps := p.plan.Lanes[lane]
	return p.plan.Shape.Size == 2 && len(steps) > 0 && steps[0].To == 1-p.plan.Shape.Rank
}

// next returns the first step of a lane from one on that receives from a peer.
func (p *port) next(lane, from int) int {
	steps := p.plan.Lanes[lane]
	for from < len(steps) && (steps[from].From == plan.None || steps[from].Local(p.plan.Shape.Rank)) {
		from++
	}
	return from
}

// post posts receives of a lane, as many as may be pending.
func (p *port) post(lane int) error {
	l := &p.lanes[lane]
	steps := p.plan.Lanes[lane]
	for l.queue-l.done < ahead {
		if l.posted = p.next(lane, l.posted); l.posted == len(steps) {
			return nil
		}
		s := &steps[l.posted]
		r := &l.recvs[l.queue%ahead]
		if err := l.mesh.Post(r, s.From, p.slots(lane, l.posted), s.Dst.Len*p.plan.Shape.Elem); err != nil {
			return classify(err)
		}
		l.queue++
		l.posted++
	}
	return nil
}

// Send implements engine.Port.
func (p *port) Send(peer, lane, step, total int, b []byte) (bool, error) {
	l := &p.lanes[lane]
	if l.step != step {
		l.step = step
		if err := l.mesh.Announce(&l.send, peer, p.slots(lane, step), total); err != nil {
			return false, classify(err)
		}
	}
	ok, err := l.mesh.Write(&l.send, b)
	return ok, classify(err)
}

// Arrived implements engine.Port.
func (p *port) Arrived(_, lane int) (n, total int, err error) {
	l := &p.lanes[lane]
	s := &p.plan.Lanes[lane][l.at]
	n, err = l.mesh.Arrived(&l.recvs[l.done%ahead], p.plan.Shape.Elem, !s.Reduce)
	l.taken = n
	return n, s.Dst.Len * p.plan.Shape.Elem, classify(err)
}

// Body implements engine.Port.
func (p *port) Body(_, lane int, dst []byte) ([]byte, bool, error) {
	l := &p.lanes[lane]
	b, ok, err := l.mesh.Body(&l.recvs[l.done%ahead], dst, l.taken)
	return b, ok, classify(err)
}

// Release implements engine.Port. An error of the next receives comes back at the next call.
func (p *port) Release(_, lane int) {
	l := &p.lanes[lane]
	direct := !p.plan.Lanes[lane][l.at].Reduce
	if !l.mesh.Release(&l.recvs[l.done%ahead], l.taken, direct) {
		return
	}
	l.done++
	l.at = p.next(lane, l.at+1)
	if l.queue-l.done > ahead/2 {
		return // so that several notices go together
	}
	if p.post(lane) == nil {
		_ = l.mesh.Flush() // fails at the next call again
	}
}

// MaxFrame implements engine.Port: a message is one frame.
func (p *port) MaxFrame(int) int { return math.MaxInt }

// Ahead implements engine.Eager: a message that runs ahead has its receive posted, so no peer keeps others waiting behind it.
func (p *port) Ahead() int { return longAhead }
