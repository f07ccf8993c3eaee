package pg

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/internal/ranklist"
	"github.com/colligo-go/colligo/plan"
)

// patience is how long a rank that timed out waits for its peers to say where they are.
const patience = 500 * time.Millisecond

// answers collects what peers say to questions. Several goroutines may ask at once.
type answers struct {
	mu    sync.Mutex
	asked uint64 // questions so far
	open  map[uint64]*question
}

// question is one of them.
type question struct {
	token uint64
	from  map[int]note  // under answers.mu
	more  chan struct{} // has room for one signal
}

// ask begins a question.
func (a *answers) ask() *question {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open == nil {
		a.open = map[uint64]*question{}
	}
	a.asked++
	q := &question{a.asked, map[int]note{}, make(chan struct{}, 1)}
	a.open[q.token] = q
	return q
}

// end returns the answers to a question, and takes no more of them.
func (a *answers) end(q *question) map[int]note {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.open, q.token)
	return q.from
}

// hurry ends the wait for more answers.
func (a *answers) hurry() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, q := range a.open {
		q.signal()
	}
}

func (a *answers) put(peer int, n note) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if q := a.open[n.Token]; q != nil { // else it is too late
		q.from[peer] = n
		q.signal()
	}
}

// count returns how many have answered.
func (a *answers) count(q *question) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(q.from)
}

// signal has who asks look again. The caller holds answers.mu.
func (q *question) signal() {
	select {
	case q.more <- struct{}{}:
	default: // a signal is there already
	}
}

// here says which collective this rank has entered last, and what is pending.
func (g *Group) here() note {
	c := g.entered.newest()
	n := note{Kind: noteHere, Seq: c.Seq, Done: g.completed.Load()}
	n.Sends, n.Recvs = g.owing.list()
	if c.Seq > 0 {
		n.Call = describe(c)
	}
	return n
}

// answer tells a peer which collective this rank has entered last.
func (g *Group) answer(peer int, token uint64) {
	n := g.here()
	n.Token = token
	m := g.ready.Load()
	if m == nil {
		return // linked with that peer, but not yet with all
	}
	b, err := json.Marshal(n)
	if err == nil {
		err = (*m).Notify(peer, b)
	}
	if err != nil {
		g.log.Debug("answer not sent", "group", g.name, "rank", g.rank, "peer", peer, "error", err)
	}
}

// timedOut fails the group because an operation took too long, with a line that says which ranks are to blame.
func (g *Group) timedOut(op *operation) {
	after := op.deadline.Sub(op.began).Round(time.Millisecond)
	got := g.askAll()
	if g.Err() != nil {
		return // a peer has told the cause in the meantime, and may have gone without an answer
	}
	if g.config.Watch.Desync == On {
		g.logWhereabouts(got)
	}
	cause := g.word(op, after, got)
	if op.isPair() {
		cause = g.wordPair(op, after, got)
	}
	if !errors.Is(cause, colligo.ErrMismatch) {
		cause = &blame{cause, g.culprits(op, got)}
	}
	e := &colligo.OpError{Group: g.name, Op: op.coll.String(), Seq: numberOf(op.sequence()), What: op.what(), Rank: g.rank,
		Peer: colligo.NoRank, Lane: colligo.NoRank, Step: colligo.NoRank, Err: cause}
	op.late = e
	g.fail(e, true)
}

// askAll asks all peers where they are.
func (g *Group) askAll() map[int]note {
	q := g.answers.ask()
	g.tell(note{Kind: noteWhere, Token: q.token})
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for g.answers.count(q) < g.size-1 && g.Err() == nil {
		select {
		case <-q.more:
		case <-limit.C:
			return g.answers.end(q)
		}
	}
	return g.answers.end(q)
}

// word makes one line of the peers' answers.
func (g *Group) word(op *operation, after time.Duration, got map[int]note) error {
	var missing, silent, waiting, ahead []int
	ours := describe(g.call(op))
	for peer := range g.size {
		n, ok := got[peer]
		switch {
		case peer == g.rank || ok && n.Seq == op.seq && n.Call == ours:
			waiting = append(waiting, peer)
		case !ok:
			silent = append(silent, peer)
		case n.Seq < op.seq:
			missing = append(missing, peer)
		case n.Seq > op.seq:
			ahead = append(ahead, peer)
		default:
			return &classed{fmt.Errorf("after %v rank %d is in %s, this rank in %s", after, peer, n.Call, ours), colligo.ErrMismatch}
		}
	}
	var parts []string
	if len(missing) > 0 {
		parts = append(parts, fmt.Sprintf("%s %s not entered after %v", rankList(missing), have(missing), after))
	}
	if len(silent) > 0 {
		parts = append(parts, fmt.Sprintf("%s %s not answer after %v", rankList(silent), do(silent), after))
	}
	if parts == nil {
		parts = append(parts, fmt.Sprintf("not finished after %v though every rank has entered", after))
	}
	parts = append(parts, fmt.Sprintf("%s %s", rankList(waiting), wait(waiting)))
	if len(ahead) > 0 {
		parts = append(parts, fmt.Sprintf("%s %s gone on", rankList(ahead), have(ahead)))
	}
	parts = append(parts, strayed(missing, got)...)
	return &classed{fmt.Errorf("%s", strings.Join(parts, "; ")), colligo.ErrTimeout}
}

func have(ranks []int) string { return number(ranks, "has", "have") }
func do(ranks []int) string   { return number(ranks, "does", "do") }
func wait(ranks []int) string { return number(ranks, "waits", "wait") }

func number(ranks []int, one, many string) string { return ranklist.Verb(ranks, one, many) }

func rankList(ranks []int) string { return ranklist.Text(ranks) }

func peerName(peer int) string {
	if peer == anyPeer {
		return "any"
	}
	return fmt.Sprint(peer)
}

// anyPeer as the peer of a receive takes a message from whoever sends first.
const anyPeer = plan.None
