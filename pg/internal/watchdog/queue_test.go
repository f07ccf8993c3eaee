package watchdog

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
