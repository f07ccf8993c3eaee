package watchdog

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/pg/backend"
	"github.com/colligo-go/colligo/pg/flight"
	"github.com/colligo-go/colligo/pg/internal/op"
	"github.com/colligo-go/colligo/pg/internal/oplog"
	"github.com/colligo-go/colligo/plan"
)

// numbered is a Pending whose end tells its number.
type numbered struct {
	never
	done *atomic.Uint64 // of the last that is over
	n    uint64
	ends *[]uint64
}

func (p *numbered) Done() bool { return p.done.Load() >= p.n }
func (p *numbered) Synchronize(context.Context) error {
	*p.ends = append(*p.ends, p.n)
	return nil
}

// TestQueueBesideLooks adds operations of all kinds while the watchdog looks all the time, with pauses in which none is over. The queues
// grow in some of them, and turn around in others. Each operation is concluded once, in the order of its kind.
func TestQueueBesideLooks(t *testing.T) {
	t.Parallel()
	const each = 20_000
	d := new(Devices)
	log := new(oplog.Log)
	log.Open(flight.New(16, 0), "g", "", 0, []int{0, 1}, false)
	d.Open(whole{}, log)
	var done [numKinds]atomic.Uint64
	var ends [numKinds][]uint64
	var busy sync.WaitGroup
	ended := make(chan struct{})
	busy.Go(func() {
		for {
			select {
			case <-ended:
				return
			default:
				d.look(false)
				d.First()
			}
		}
	})
	rng := rand.New(rand.NewPCG(5, 6))
	colls := [numKinds]plan.Coll{collectives: plan.AllReduce, sends: plan.Send, receives: plan.Recv}
	calls := d.CallsOf(never{})
	var added [numKinds]uint64
	for range numKinds * each {
		q := rng.IntN(numKinds)
		added[q]++
		o := &op.Op{Coll: colls[q], Size: 2, Peer: 1, Number: added[q]}
		d.Add(calls, o, &numbered{done: &done[q], n: added[q], ends: &ends[q]})
		if rng.IntN(500) == 0 {
			q := rng.IntN(numKinds)
			done[q].Store(added[q])
		}
		if rng.IntN(2000) == 0 {
			time.Sleep(time.Millisecond) // the looker empties what is over
		}
	}
	for q := range done {
		done[q].Store(added[q])
	}
	require.Eventually(t, d.nothing, 10*time.Second, time.Millisecond)
	close(ended)
	busy.Wait()
	d.Close()
	for q := range ends {
		require.Len(t, ends[q], int(added[q]))
		for i, n := range ends[q] {
			require.Equal(t, uint64(i)+1, n)
		}
		kept := &d.queues[q]
		require.Greater(t, len(kept.entries), shortQueue, "it did not grow")
		require.Less(t, len(kept.entries), int(added[q]), "it did not turn around")
		for i := range kept.entries {
			require.Nil(t, kept.entries[i].more, "an operation that is over keeps its tensors alive")
		}
	}
	require.Equal(t, int(added[0]+added[1]+added[2]), d.Added())
}

// TestBlocksTurnAround has hundreds of blocks pending, of two operations each, some of which fail. Each block is concluded once, in its order,
// with the error of its operation.
func TestBlocksTurnAround(t *testing.T) {
	t.Parallel()
	d, log := new(Devices), new(oplog.Log)
	log.Open(flight.New(16, 0), "g", "", 0, []int{0, 1}, false)
	d.Open(whole{}, log)
	d.ended = true // it looks when the test says so
	var heard []oplog.Entry
	log.Hooks.Register(func(e oplog.Entry) { heard = append(heard, e) })
	var done atomic.Uint64
	var ends []uint64
	calls := d.CallsOf(never{})
	const all = 5 * shortQueue
	for n := range uint64(all) {
		d.BeginBlock()
		for _, coll := range []plan.Coll{plan.Send, plan.AllReduce} {
			var p backend.Pending = &numbered{done: &done, n: n, ends: &ends}
			if n%7 == 3 && coll == plan.Send {
				p = failing{p, n}
			}
			d.Add(calls, &op.Op{Coll: coll, Size: 2, Peer: 1, Number: n + 1}, p)
		}
		block := &op.Op{Coll: plan.Barrier, Number: n + 1}
		block.As(op.Coalesced)
		d.EndBlock(block)
		if n >= 2*shortQueue { // they are pending
			done.Store(n - 2*shortQueue)
			d.look(false)
		}
	}
	done.Store(all)
	d.look(false)
	require.True(t, d.nothing())
	log.Hooks.Close()
	next := uint64(1)
	for _, e := range heard {
		if e.Type != op.Coalesced {
			continue
		}
		require.Equal(t, next, e.Number)
		if n := next - 1; n%7 == 3 {
			require.EqualError(t, e.Err, fmt.Sprint("failed: ", n))
		} else {
			require.NoError(t, e.Err)
		}
		next++
	}
	require.Equal(t, uint64(all)+1, next)
}

// failing is a Pending whose operation fails.
type failing struct {
	backend.Pending
	n uint64
}

func (f failing) Synchronize(context.Context) error { return fmt.Errorf("failed: %d", f.n) }

// TestLooksBegin adds operations that are over, one after the goroutine has ended that looked for the one before. Another one begins.
func TestLooksBegin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := new(Devices)
		d.Open(whole{}, new(oplog.Log))
		b := tracking{finished: new(atomic.Uint64)}
		for n := range uint64(100) {
			b.finished.Store(n + 1)
			d.Add(d.CallsOf(b), &op.Op{Coll: plan.Send}, nil)
			time.Sleep(time.Duration(n) * shortPause / 10) // some meet a goroutine that has not ended
		}
		time.Sleep(2 * longPause)
		require.True(t, d.nothing())
		looking, _ := d.Left()
		require.False(t, looking)
	})
}
