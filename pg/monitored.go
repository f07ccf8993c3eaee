package pg

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/colligo-go/colligo"
)

// MonitoredBarrier returns when every rank has called it, and after the timeout (0 takes the group's, and the context's
// deadline comes before either) fails with an error that names the rank that has not: the first, or with waitAll every one.
// Rank 0 decides, and tells the others. A rank that comes too late gets that error too.
//
// It goes past all collectives over the control channel, and does not wait for those that are pending. Its failure is not
// the group's: whoever caught up can go on. A rank is in one at a time; a second call meanwhile is an error that the others
// do not hear of. c10d: monitored_barrier, where the backend fails with it.
func (g *Group) MonitoredBarrier(ctx context.Context, timeout time.Duration, waitAll bool) error {
	g = g.orOutside()
	if g.rank == colligo.NoRank {
		return g.ungated(0, colligo.NoRank, ErrNotMember)
	}
	if err := g.Err(); err != nil || g.size == 1 {
		return g.ungated(0, colligo.NoRank, err)
	}
	if timeout < 0 {
		return g.ungated(0, colligo.NoRank, fmt.Errorf("a timeout of %v", timeout))
	}
	if timeout == 0 {
		timeout = g.Timeout()
	}
	turn, more := g.gate.enter()
	if more == nil {
		return g.ungated(turn, colligo.NoRank, errors.New("this rank is in a monitored barrier already"))
	}
	defer g.gate.leave()
	w := gateWait{g: g, ctx: ctx, turn: turn, more: more, timeout: timeout}
	if g.rank == 0 {
		return w.collect(waitAll)
	}
	return w.report()
}

// ungated words the failure of a monitored barrier; a nil cause is none.
func (g *Group) ungated(turn uint64, peer int, cause error) error {
	if cause == nil {
		return nil
	}
	var said *reported
	return &colligo.OpError{Group: g.name, Op: "monitored_barrier", Seq: turn, Rank: g.rank, Peer: peer, Lane: colligo.NoRank,
		Step: colligo.NoRank, Second: errors.As(cause, &said), Err: cause}
}

// What the notes of monitored barriers say. Ranks count them, and the number is the note's Seq.
const (
	gateCome   = "come"   // to rank 0: the sender is there
	gateOpen   = "open"   // from rank 0: it is there, and waits for the others
	gatePassed = "passed" // from rank 0: all are there
	gateFailed = "failed" // from rank 0: not all came in time
)

// gate is what a rank knows of the group's monitored barriers.
type gate struct {
	mu      sync.Mutex
	turn    uint64         // barriers that this rank has entered
	came    map[int]uint64 // by rank, the last that it has entered; on rank 0
	gone    map[int]bool   // ranks that will not come
	open    uint64         // the last that rank 0 has entered
	decided note           // how rank 0 has decided the last that it has
	more    chan struct{}  // has room for one signal; nil outside a barrier
}

// enter begins the next barrier; more is nil, and the turn that of the one at hand, if the rank has not left that.
func (m *gate) enter() (turn uint64, more <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.more != nil {
		return m.turn, nil
	}
	m.turn++
	m.more = make(chan struct{}, 1)
	return m.turn, m.more
}

// leave ends it for this rank.
func (m *gate) leave() {
	m.mu.Lock()
	m.more = nil
	m.mu.Unlock()
}

// signal has a waiting barrier look again. The caller holds m.mu.
func (m *gate) signal() {
	select {
	case m.more <- struct{}{}:
	default:
	}
}

// stir is signal when something else has changed.
func (m *gate) stir() {
	m.mu.Lock()
	m.signal()
	m.mu.Unlock()
}

// lost notes that a rank will not come.
func (m *gate) lost(peer int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gone == nil {
		m.gone = map[int]bool{}
	}
	m.gone[peer] = true
	m.signal()
}

// put takes a note of a peer.
func (m *gate) put(rank, peer int, n note) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case rank == 0 && n.Call == gateCome:
		if m.came == nil {
			m.came = map[int]uint64{}
		}
		m.came[peer] = max(m.came[peer], n.Seq)
	case rank == 0 || peer != 0:
		return
	case n.Call == gateOpen:
		m.open = max(m.open, n.Seq)
	case n.Seq > m.decided.Seq:
		m.decided = n
	}
	m.signal()
}

// missing returns the other ranks that have not come, and those of them that never will.
func (m *gate) missing(size int, turn uint64) (late, gone []int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for r := 1; r < size; r++ {
		if m.came[r] >= turn {
			continue
		}
		late = append(late, r)
		if m.gone[r] {
			gone = append(gone, r)
		}
	}
	return late, gone
}

// verdict returns what rank 0 has decided last, whether it is there, and whether it is gone.
func (m *gate) verdict(turn uint64) (decided note, open, gone bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.decided, m.open >= turn, m.gone[0]
}

// gateWait is one call of a monitored barrier.
type gateWait struct {
	g       *Group
	ctx     context.Context
	turn    uint64
	more    <-chan struct{}
	timeout time.Duration
}

func (w *gateWait) note(call, text string) note {
	return note{Kind: noteGate, Seq: w.turn, Call: call, Text: text}
}

// wait returns when there may be news, and an error when there will be none.
func (w *gateWait) wait(limit <-chan time.Time) error {
	if err := w.g.Err(); err != nil {
		return err
	}
	select {
	case <-w.more:
		return w.g.Err()
	case <-limit:
		return colligo.ErrTimeout
	case <-w.ctx.Done():
		if errors.Is(w.ctx.Err(), context.DeadlineExceeded) {
			return &classed{context.Cause(w.ctx), colligo.ErrTimeout}
		}
		return context.Cause(w.ctx)
	}
}

// collect is rank 0's part: it waits for all, and says how it went.
func (w *gateWait) collect(waitAll bool) error {
	w.g.tell(w.note(gateOpen, ""))
	limit := time.NewTimer(w.timeout)
	defer limit.Stop()
	for began := time.Now(); ; {
		late, gone := w.g.gate.missing(w.g.size, w.turn)
		if len(late) == 0 {
			w.g.tell(w.note(gatePassed, ""))
			return nil
		}
		var err error
		if len(gone) == 0 || waitAll && len(gone) < len(late) {
			if err = w.wait(limit.C); err == nil {
				continue
			}
		}
		after := time.Since(began).Round(time.Millisecond)
		peer, err := w.blame(late, gone, err, after, waitAll)
		n := w.note(gateFailed, clip(err.Error()))
		n.Cause = causeName(err)
		w.g.tell(n)
		return w.g.ungated(w.turn, peer, err)
	}
}

// blame words why rank 0 gives up.
func (w *gateWait) blame(late, gone []int, cause error, after time.Duration, waitAll bool) (int, error) {
	if !waitAll && len(gone) > 0 {
		late = gone
	}
	peer := late[0]
	if !waitAll {
		late = late[:1]
	}
	switch {
	case cause == nil || len(gone) > 0 && !waitAll:
		return peer, &classed{fmt.Errorf("%s %s left", rankList(late), have(late)), colligo.ErrPeerLost}
	case cause != colligo.ErrTimeout:
		return peer, fmt.Errorf("%s %s not come after %v: %w", rankList(late), have(late), after, cause)
	}
	return peer, &classed{fmt.Errorf("%s %s not come after %v", rankList(late), have(late), after), colligo.ErrTimeout}
}

// report is the part of the others: they say that they are there and wait for what rank 0 decides. Until it is there itself
// it has as long as they have; then it tells in time, or is gone.
func (w *gateWait) report() error {
	b, err := json.Marshal(w.note(gateCome, ""))
	if err == nil {
		err = w.g.mesh.Notify(0, b)
	}
	if err != nil {
		w.g.log.Debug("note not sent", "group", w.g.name, "rank", w.g.rank, "peer", 0, "error", err)
	}
	limit := time.NewTimer(w.timeout + patience)
	defer limit.Stop()
	opened, began := false, time.Now()
	for {
		n, open, gone := w.g.gate.verdict(w.turn)
		switch {
		case n.Seq == w.turn && n.Call == gatePassed:
			return nil
		case n.Seq >= w.turn: // a later one cannot have passed without this rank
			return w.g.ungated(w.turn, 0, &reported{peer: 0, text: n.Text, sentinel: causes[n.Cause]})
		case gone:
			return w.g.ungated(w.turn, 0, &classed{errors.New("rank 0 has left"), colligo.ErrPeerLost})
		case open && !opened:
			opened = true
			limit.Reset(w.timeout + patience)
		}
		if err := w.wait(limit.C); err != nil {
			after := time.Since(began).Round(time.Millisecond)
			return w.g.ungated(w.turn, 0, fmt.Errorf("rank 0 has not answered after %v: %w", after, err))
		}
	}
}
