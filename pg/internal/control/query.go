package control

import (
	"sync"
	"time"

	"github.com/colligo-go/colligo/pg/internal/diagnose"
)

// Patience is how long a rank that timed out waits for its peers to say where they are.
const Patience = 500 * time.Millisecond

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
	q := &Asked{qs, qs.asked, diagnose.Snapshots{}, make(chan struct{}, 1)}
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

// count returns how many peers have answered.
func (q *Asked) count() int {
	q.all.mu.Lock()
	defer q.all.mu.Unlock()
	return len(q.from)
}

// signal has the goroutine that asks look again. The caller holds queries.mu.
func (q *Asked) signal() {
	select {
	case q.more <- struct{}{}:
	default: // a signal is there already
	}
}

// put takes a peer's answer.
func (qs *queries) put(peer int, token uint64, s diagnose.Snapshot) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if q := qs.open[token]; q != nil { // else it is too late
		q.from[peer] = s
		q.signal()
	}
}

// stir has all goroutines that ask look again.
func (qs *queries) stir() {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	for _, q := range qs.open {
		q.signal()
	}
}

// Ask asks all peers where they are. It returns the answers, by rank, when all have come, when the group has failed, and at
// the latest after Patience.
func (c *Channel) Ask() diagnose.Snapshots {
	q := c.Expect()
	c.Tell(&Message{Kind: Query, Token: q.token})
	limit := time.NewTimer(Patience)
	defer limit.Stop()
	for q.count() < c.config.Size-1 && c.config.Failed() == nil {
		select {
		case <-q.more:
		case <-limit.C:
			return q.End()
		}
	}
	return q.End()
}

// Here is which collective this rank has entered last, and what is pending.
func (c *Channel) Here() diagnose.Snapshot { return c.snapshot(c.here()) }

func (c *Channel) here() *Message {
	call := c.Progress.newest()
	m := &Message{Kind: Answer, Seq: call.Seq, Done: c.Progress.completed.Load()}
	m.Sends, m.Recvs = c.Progress.pending()
	if call.Seq > 0 {
		m.Call = c.config.Describe(call)
	}
	return m
}

// answer answers a peer's progress query.
func (c *Channel) answer(peer int, m *Message) {
	here := c.here()
	here.Token = m.Token
	c.send(peer, here, "answer not sent")
}

// answered takes a peer's answer.
func (c *Channel) answered(peer int, m *Message) { c.queries.put(peer, m.Token, c.snapshot(m)) }

// snapshot reads an answer.
func (c *Channel) snapshot(m *Message) diagnose.Snapshot {
	return diagnose.Snapshot{Seq: m.Seq, Done: m.Done, Number: c.config.Number(m.Done), Call: m.Call, Sends: m.Sends, Recvs: m.Recvs}
}
