package control

import (
	"errors"
	"sync"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/internal/diagnose"
)

// Patience is how long a rank that timed out waits for its peers to say where they are. It waits longer if it is held up itself, see
// patience.
const Patience = 500 * time.Millisecond

// patienceParts is of how many waits, one after the other, Patience is made.
const patienceParts = 10

// patience ends after Patience. A process may get no processor for a second, and its peer none either. A single timer would be over when
// the process goes on, and the peer would be called silent. So Patience is patienceParts timers, one after the other. Each begins when this
// process has seen the one before end. A time without a processor then counts as one part at most.
type patience struct {
	timer *time.Timer
	parts int // that have not ended
}

func newPatience() *patience {
	return &patience{time.NewTimer(Patience / patienceParts), patienceParts}
}

// partEnded counts a part whose timer has ended, and begins the next. It tells whether that was the last.
func (p *patience) partEnded() bool {
	if p.parts--; p.parts == 0 {
		return true
	}
	p.timer.Reset(Patience / patienceParts)
	return false
}

// queries are the progress queries under way. Several goroutines may ask at once.
type queries struct {
	mu    sync.Mutex
	asked uint64 // queries so far
	open  map[uint64]*Asked
}

// Asked is a progress query under way.
type Asked struct {
	all   *queries
	token uint64
	from  diagnose.Snapshots // under queries.mu
	whole int                // answers that are not partial
	more  chan struct{}      // has room for one signal
}

// Expect begins a query without asking anybody. Answers with its token count.
func (c *Channel) Expect() *Asked {
	qs := &c.queries
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if qs.open == nil {
		qs.open = map[uint64]*Asked{}
	}
	qs.asked++
	q := &Asked{all: qs, token: qs.asked, from: diagnose.Snapshots{}, more: make(chan struct{}, 1)}
	qs.open[q.token] = q
	return q
}

// Token tells the answers to one query from the answers to others.
func (q *Asked) Token() uint64 { return q.token }

// End returns the answers to a query by rank, and takes no more of them.
func (q *Asked) End() diagnose.Snapshots {
	q.all.mu.Lock()
	defer q.all.mu.Unlock()
	delete(q.all.open, q.token)
	return q.from
}

// count returns how many peers have answered in full.
func (q *Asked) count() int {
	q.all.mu.Lock()
	defer q.all.mu.Unlock()
	return q.whole
}

// signal has the goroutine that asks look again. The caller holds queries.mu.
func (q *Asked) signal() {
	select {
	case q.more <- struct{}{}:
	default: // a signal is there already
	}
}

// put takes a peer's answer. A partial one replaces no other, for it may come after the one that is whole.
func (qs *queries) put(peer int, m *Message, s diagnose.Snapshot) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q := qs.open[m.Token]
	if q == nil {
		return // it is too late
	}
	if _, known := q.from[peer]; m.Partial && known {
		return
	}
	q.from[peer] = s
	if !m.Partial {
		q.whole++
	}
	q.signal()
}

// stir has all goroutines that ask look again.
func (qs *queries) stir() {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	for _, q := range qs.open {
		q.signal()
	}
}

// Ask asks all peers where they are, and what they have called as the collective with a sequence number, 0 for none. It returns the
// answers, by rank, when every peer has answered in full, when the group has failed, and at the latest after Patience.
func (c *Channel) Ask(seq uint64) diagnose.Snapshots {
	q := c.Expect()
	expected := c.config.Size - 1
	if c.config.Left != nil {
		expected -= len(c.config.Left())
	}
	c.Tell(&Message{Kind: Query, Token: q.token, Seq: seq})
	limit := newPatience()
	defer limit.timer.Stop()
	for q.count() < expected && c.config.Failed() == nil {
		select {
		case <-q.more:
		case <-limit.timer.C:
			if limit.partEnded() {
				return q.End()
			}
		}
	}
	return q.End()
}

// Survey asks all peers as Ask does, and calls f with the answers on a goroutine of its own. It does nothing while an earlier survey is
// under way, or if the channel does not send.
func (c *Channel) Survey(seq uint64, f func(diagnose.Snapshots)) {
	if c.mesh.Load() == nil || !c.surveying.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer c.surveying.Store(false)
		f(c.Ask(seq))
	}()
}

// Here is which collective this rank has entered last, and what is pending.
func (c *Channel) Here() diagnose.Snapshot { return c.snapshot(c.here()) }

// Standing tells which collective this rank has entered last, what is pending, and for which bytes the collective at hand waits.
// Of the bytes the progress engine tells, within Patience or not at all.
func (c *Channel) Standing() diagnose.Snapshot {
	told := make(chan *Standing, 1)
	if c.config.Inquire == nil || !c.config.Inquire(func(s *Standing, _ bool) { told <- s }) {
		return c.Here()
	}
	limit := newPatience()
	defer limit.timer.Stop()
	for {
		select {
		case s := <-told:
			here := c.here()
			here.Stands = s
			return c.snapshot(here)
		case <-limit.timer.C:
			if limit.partEnded() {
				return c.Here()
			}
		}
	}
}

// Behind asks all peers where they are. It returns the ranks that have not answered, and those that have not entered the collective
// that this rank is in.
func (c *Channel) Behind() (ranks []int) {
	own, got := c.Here(), c.Ask(0)
	for peer := range c.config.Size {
		if at, answered := got[peer]; peer != c.config.Rank && (!answered || at.Seq < own.Seq) {
			ranks = append(ranks, peer)
		}
	}
	return ranks
}

func (c *Channel) here() *Message {
	call := c.Progress.newest()
	m := &Message{Kind: Answer, Seq: call.Seq, Done: c.Progress.done()}
	m.Sends, m.Recvs = c.Progress.pending()
	if call.Seq > 0 {
		m.Call = c.config.Describe(call)
	}
	return m
}

// answer answers a peer's progress query. Where the collective at hand stands, the progress engine tells in a second answer. A rank that has
// failed has ended its collective, and cannot tell any more where that stood. So its answer is partial, and the peer waits for the cause of
// the failure, at most for Patience. A rank that closes has no cause to tell.
func (c *Channel) answer(peer int, m *Message) {
	here, asked := c.here(), c.asked(m.Seq)
	here.Token, here.Asked = m.Token, asked
	follows := c.config.Inquire != nil && c.config.Inquire(func(s *Standing, failed bool) {
		second := c.here()
		second.Token, second.Asked, second.Stands = m.Token, asked, s
		second.Partial = failed
		c.send(peer, second, "answer not sent")
	})
	err := c.config.Failed()
	here.Partial = follows || err != nil && !errors.Is(err, colligo.ErrClosed)
	c.send(peer, here, "answer not sent")
}

// asked describes a collective that this rank has gone on from, while it is remembered.
func (c *Channel) asked(seq uint64) string {
	call, ok := c.Progress.At(seq)
	if !ok || seq >= c.Progress.newest().Seq {
		return ""
	}
	return c.config.Describe(call)
}

// answered takes a peer's answer.
func (c *Channel) answered(peer int, m *Message) { c.queries.put(peer, m, c.snapshot(m)) }

// snapshot reads an answer.
func (c *Channel) snapshot(m *Message) diagnose.Snapshot {
	s := diagnose.Snapshot{Seq: m.Seq, Done: m.Done, Number: c.config.Number(m.Done), Call: m.Call, Asked: m.Asked, Sends: m.Sends, Recvs: m.Recvs}
	if at := m.Stands; at != nil {
		s.At, s.From, s.Sent, s.Got = at.At, at.From[:min(len(at.From), diagnose.MostNamed)], at.Sent, at.Got
	}
	return s
}
