package pg

import (
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/internal/diagnose"
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

// timedOut fails the group because an operation took too long, with a line that says why and the ranks at fault.
func (g *Group) timedOut(op *operation) {
	got := snapshots(g.askAll())
	if g.Err() != nil {
		return // a peer has told the cause in the meantime, and may have gone without an answer
	}
	if g.config.Watch.Desync == On {
		g.logDesync(got)
	}
	report := diagnose.Explain(g.lateCall(op), snapshotOf(g.here()), got)
	var cause error = &classed{errors.New(report.Line), report.Class}
	if report.Class == colligo.ErrTimeout {
		cause = &suspected{cause, report.Suspects}
	}
	e := &colligo.OpError{Group: g.name, Op: op.coll.String(), Seq: numberOf(op.sequence()), What: op.what(), Rank: g.rank,
		Peer: colligo.NoRank, Lane: colligo.NoRank, Step: colligo.NoRank, Err: cause}
	op.late = e
	g.fail(e, true)
}

// lateCall describes an operation for package diagnose.
func (g *Group) lateCall(op *operation) *diagnose.Operation {
	o := &diagnose.Operation{Rank: g.rank, Size: g.size, Coll: op.coll, Seq: op.seq, Call: describe(g.call(op)),
		After: op.deadline.Sub(op.began).Round(time.Millisecond).String(), Device: op.device.Kind != colligo.CPU, Peer: op.peer, Tag: op.tag}
	if op.coll == plan.Recv && !o.Device { // of a receive on a device another goroutine may own the unexpected messages
		o.Unexpected = g.stash.others(op.peer)
	}
	return o
}

// snapshotOf makes a peer's answer a snapshot.
func snapshotOf(n note) diagnose.Snapshot {
	return diagnose.Snapshot{Seq: n.Seq, Done: n.Done, Number: numberOf(n.Done), Call: n.Call, Sends: n.Sends, Recvs: n.Recvs}
}

func snapshots(got map[int]note) diagnose.Snapshots {
	all := diagnose.Snapshots{}
	for peer, n := range got {
		all[peer] = snapshotOf(n)
	}
	return all
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

func have(ranks []int) string                     { return number(ranks, "has", "have") }
func number(ranks []int, one, many string) string { return ranklist.Verb(ranks, one, many) }

func rankList(ranks []int) string { return ranklist.Text(ranks) }

// anyPeer as the peer of a receive takes a message from whoever sends first.
const anyPeer = diagnose.AnyPeer
