package control

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/internal/diagnose"
	"github.com/colligo-go/colligo/pg/internal/ranklist"
)

// The texts of monitored barriers' messages. Ranks count barriers, and the number is the message's Seq.
const (
	barrierCome   = "come"   // to rank 0: the sender is there
	barrierOpen   = "open"   // from rank 0: it is there, and waits for the others
	barrierPassed = "passed" // from rank 0: all are there
	barrierFailed = "failed" // from rank 0: not all came in time
)

// barrier is what a rank knows of the group's monitored barriers.
type barrier struct {
	mu      sync.Mutex
	seq     uint64         // barriers that this rank has entered
	came    map[int]uint64 // by rank, the last that it has entered; on rank 0
	gone    map[int]bool   // ranks that will not come
	open    uint64         // the last that rank 0 has entered
	decided Message        // how rank 0 has decided the last that it has
	more    chan struct{}  // has room for one signal; nil outside a barrier
}

// enter begins the next barrier. If the rank has not left one yet, more is nil and seq is that one's.
func (b *barrier) enter() (seq uint64, more <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.more != nil {
		return b.seq, nil
	}
	b.seq++
	b.more = make(chan struct{}, 1)
	return b.seq, b.more
}

// leave ends it for this rank.
func (b *barrier) leave() {
	b.mu.Lock()
	b.more = nil
	b.mu.Unlock()
}

// signal has a waiting barrier look again. The caller holds b.mu.
func (b *barrier) signal() {
	select {
	case b.more <- struct{}{}:
	default:
	}
}

// stir has a waiting barrier look at the group's error again.
func (b *barrier) stir() {
	b.mu.Lock()
	b.signal()
	b.mu.Unlock()
}

// lost notes that a rank will not come.
func (b *barrier) lost(peer int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.gone == nil {
		b.gone = map[int]bool{}
	}
	b.gone[peer] = true
	b.signal()
}

// put takes a peer's message.
func (b *barrier) put(rank, peer int, m *Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case rank == 0 && m.Call == barrierCome:
		if b.came == nil {
			b.came = map[int]uint64{}
		}
		b.came[peer] = max(b.came[peer], m.Seq)
	case rank == 0 || peer != 0:
		return
	case m.Call == barrierOpen:
		b.open = max(b.open, m.Seq)
	case m.Seq > b.decided.Seq:
		b.decided = *m
	}
	b.signal()
}

// missing returns the other ranks that have not come, and among them the ranks that are gone.
func (b *barrier) missing(size int, seq uint64) (late, gone []int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for r := 1; r < size; r++ {
		if b.came[r] >= seq {
			continue
		}
		late = append(late, r)
		if b.gone[r] {
			gone = append(gone, r)
		}
	}
	return late, gone
}

// verdict returns rank 0's last decision, whether it is there, and whether rank 0 is gone.
func (b *barrier) verdict(seq uint64) (decided Message, open, gone bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.decided, b.open >= seq, b.gone[0]
}

// errTwice is the error of a second call of a rank that has not left its barrier.
var errTwice = errors.New("this rank is in a monitored barrier already")

// MonitoredBarrier returns when every rank has called it, and fails after the timeout or when the context ends. Rank 0
// decides and tells the others. It returns the barrier's number, the rank at fault, colligo.NoRank if there is none, and
// why it has failed. A *Reported among the causes says that rank 0 has decided so.
func (c *Channel) MonitoredBarrier(ctx context.Context, timeout time.Duration, waitAll bool) (seq uint64, peer int, err error) {
	seq, more := c.barrier.enter()
	if more == nil {
		return seq, colligo.NoRank, errTwice
	}
	defer c.barrier.leave()
	w := barrierCall{c, ctx, seq, more, timeout}
	if c.config.Rank == 0 {
		peer, err = w.collect(waitAll)
	} else {
		peer, err = 0, w.report()
	}
	return seq, peer, err
}

// barrierCall is one call of a monitored barrier.
type barrierCall struct {
	*Channel
	ctx     context.Context
	seq     uint64
	more    <-chan struct{}
	timeout time.Duration
}

func (w *barrierCall) message(call string) *Message {
	return &Message{Kind: Barrier, Seq: w.seq, Call: call}
}

// wait returns when there may be news, and an error when there will be none.
func (w *barrierCall) wait(limit <-chan time.Time) error {
	if err := w.config.Failed(); err != nil {
		return err
	}
	select {
	case <-w.more:
		return w.config.Failed()
	case <-limit:
		return colligo.ErrTimeout
	case <-w.ctx.Done():
		if errors.Is(w.ctx.Err(), context.DeadlineExceeded) {
			return diagnose.WithClass(context.Cause(w.ctx), colligo.ErrTimeout)
		}
		return context.Cause(w.ctx)
	}
}

// collect is rank 0's part: it waits for all, and tells them how it went.
func (w *barrierCall) collect(waitAll bool) (peer int, err error) {
	w.Tell(w.message(barrierOpen))
	limit := time.NewTimer(w.timeout)
	defer limit.Stop()
	for began := time.Now(); ; {
		late, gone := w.barrier.missing(w.config.Size, w.seq)
		if len(late) == 0 {
			w.Tell(w.message(barrierPassed))
			return colligo.NoRank, nil
		}
		var err error
		if len(gone) == 0 || waitAll && len(gone) < len(late) {
			if err = w.wait(limit.C); err == nil {
				continue
			}
		}
		peer, err := giveUp(late, gone, err, time.Since(began).Round(time.Millisecond), waitAll)
		m := w.message(barrierFailed)
		m.Cause, m.Text = w.config.Causes.name(err), Clip(err.Error())
		w.Tell(m)
		return peer, err
	}
}

// giveUp words why rank 0 gives up, and names the first rank at fault.
func giveUp(late, gone []int, cause error, after time.Duration, waitAll bool) (int, error) {
	if !waitAll && len(gone) > 0 {
		late = gone
	}
	peer := late[0]
	if !waitAll {
		late = late[:1]
	}
	ranks, have := ranklist.Text(late), ranklist.Verb(late, "has", "have")
	switch {
	case cause == nil || len(gone) > 0 && !waitAll:
		return peer, diagnose.WithClass(fmt.Errorf("%s %s left", ranks, have), colligo.ErrPeerLost)
	case cause != colligo.ErrTimeout:
		return peer, fmt.Errorf("%s %s not come after %v: %w", ranks, have, after, cause)
	}
	return peer, diagnose.WithClass(fmt.Errorf("%s %s not come after %v", ranks, have, after), colligo.ErrTimeout)
}

// report is the part of the other ranks: they tell rank 0 that they are there, and wait for its decision. Until rank 0 is
// there it has as long as they have. From then on it has the timeout once more, after which it has told them or is gone.
func (w *barrierCall) report() error {
	w.send(0, w.message(barrierCome), "note not sent")
	limit := time.NewTimer(w.timeout + Patience)
	defer limit.Stop()
	opened, began := false, time.Now()
	for {
		m, open, gone := w.barrier.verdict(w.seq)
		switch {
		case m.Seq == w.seq && m.Call == barrierPassed:
			return nil
		case m.Seq >= w.seq: // a later one cannot have passed without this rank
			return &Reported{Peer: 0, Text: m.Text, Sentinel: w.config.Causes.sentinel(m.Cause)}
		case gone:
			return diagnose.WithClass(errors.New("rank 0 has left"), colligo.ErrPeerLost)
		case open && !opened:
			opened = true
			limit.Reset(w.timeout + Patience)
		}
		if err := w.wait(limit.C); err != nil {
			after := time.Since(began).Round(time.Millisecond)
			return fmt.Errorf("rank 0 has not answered after %v: %w", after, err)
		}
	}
}
