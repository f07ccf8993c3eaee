package parity

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/flight"
)

// entries returns what the recorder has of the rank's group, without what belongs to the backends that it opened.
func (r *rank) entries() (own []flight.Entry) {
	for _, e := range r.Dump(flight.DumpOptions{Entries: true, Frames: true}).Entries {
		if e.Group == r.Name() {
			own = append(own, e)
		}
	}
	return own
}

// matrix returns a tensor of three by four that holds the rank.
func (r *rank) matrix() colligo.Tensor {
	return full(r, 12, float32(r.Rank())).Strided(0, []int{3, 4}, []int{4, 1})
}

// timings runs a test with and without durations.
func timings(t *testing.T, n int, o options, f func(r *rank, timing bool)) {
	for _, timing := range []bool{true, false} {
		t.Run(fmt.Sprintf("timing=%v", timing), func(t *testing.T) {
			eachWith(t, n, o, func(r *rank) {
				r.SetTiming(timing)
				f(r, timing)
			})
		})
	}
}

// TestShort records two operations.
func TestShort(t *testing.T) {
	timings(t, 2, options{}, func(r *rank, timing bool) {
		before, a := time.Now(), r.matrix()
		for range 2 {
			r.waited(r.AllReduceAsync(r.ctx, a, colligo.Sum))
		}
		require.NoError(r.t, r.WaitPending(r.ctx))
		d := r.Dump(flight.DumpOptions{Entries: true, Frames: true})
		require.Equal(r.t, map[string]flight.Group{"0": {Name: "0", Desc: "default_pg", Ranks: []int{0, 1}}}, d.Groups)
		require.Equal(r.t, flight.Status{LastEnqueued: 2, LastStarted: 2, LastCompleted: 2}, d.Status["0"])
		all := r.entries()
		require.Len(r.t, all, 2)
		last := all[1]
		require.Equal(r.t, "nccl:all_reduce", last.Name)
		require.Equal(r.t, []string{"0", "default_pg"}, []string{last.Group, last.Desc})
		require.Equal(r.t, flight.Completed, last.State)
		require.True(r.t, last.Retired)
		require.LessOrEqual(r.t, last.DiscoveredStarted, last.DiscoveredCompleted)
		require.True(r.t, strings.HasSuffix(last.Frames[0].File, "recorder_test.go"), "%v", last.Frames)
		require.Equal(r.t, [][]int64{{3, 4}}, last.InSizes)
		require.Equal(r.t, [][]int64{{3, 4}}, last.OutSizes)
		require.Equal(r.t, []string{"Float"}, last.InTypes)
		require.Equal(r.t, []uint64{2, 0, 2}, []uint64{last.Seq, last.P2PSeq, last.OpID})
		require.Equal(r.t, r.limit(), last.Timeout)
		require.False(r.t, last.P2P)
		require.GreaterOrEqual(r.t, last.Created, before.UnixNano())
		require.Equal(r.t, timing, last.Duration >= 0, "%v", last.Duration)
	})
}

// TestLong goes round a short ring of entries.
func TestLong(t *testing.T) {
	o := options{config: func(_ int, c *pg.Config) { c.Recorder.Entries = 10 }}
	timings(t, 2, o, func(r *rank, _ bool) {
		a := r.matrix()
		for range 2 {
			all := []colligo.Tensor{r.matrix(), r.matrix()}
			for _, w := range []*pg.Work{
				r.BroadcastAsync(r.ctx, a, 0), r.AllReduceAsync(r.ctx, a, colligo.Sum), r.ReduceAsync(r.ctx, a, 0, colligo.Sum), r.AllGatherAsync(r.ctx, all, a),
				r.ReduceScatterAsync(r.ctx, a, all, colligo.Sum), r.AllReduceAsync(r.ctx, a, colligo.Sum),
			} {
				r.waited(w)
			}
		}
		require.NoError(r.t, r.WaitPending(r.ctx))
		es := r.entries()
		require.Len(r.t, es, 10)
		require.Equal(r.t, uint64(9), es[9].Seq-es[0].Seq)
		require.Equal(r.t, "nccl:all_reduce", es[9].Name)
		require.Equal(r.t, flight.Completed, es[9].State)
	})
}

func TestTraceWhileAllWorksRetired(t *testing.T) {
	o := options{config: func(_ int, c *pg.Config) { c.Recorder.Entries = 10 }}
	timings(t, 2, o, func(r *rank, _ bool) {
		for range 12 {
			r.waited(r.BroadcastAsync(r.ctx, r.matrix(), 0))
		}
		require.NoError(r.t, r.WaitPending(r.ctx))
		es := r.entries()
		require.Len(r.t, es, 10)
		for _, e := range es {
			require.True(r.t, e.Retired)
			require.Equal(r.t, flight.Completed, e.State)
		}
	})
}

// TestTraceWhileActive dumps while one rank has called an operation that the other has not.
func TestTraceWhileActive(t *testing.T) {
	for _, active := range []bool{true, false} {
		t.Run(fmt.Sprintf("only_active=%v", active), func(t *testing.T) {
			timings(t, 2, options{}, func(r *rank, timing bool) {
				a := r.matrix()
				r.waited(r.AllReduceAsync(r.ctx, a, colligo.Sum))
				require.NoError(r.t, r.WaitPending(r.ctx))
				if r.Rank() == 0 {
					r.hearAll()
					es := collectivesOf(r.Dump(flight.DumpOptions{Entries: true, OnlyActive: active}).Entries)
					if active {
						require.Empty(r.t, es)
					} else {
						require.Len(r.t, es, 1)
						require.Equal(r.t, []any{"nccl:all_reduce", uint64(1), flight.Completed}, []any{es[0].Name, es[0].Seq, es[0].State})
					}
					r.waited(r.AllReduceAsync(r.ctx, a, colligo.Sum))
					return
				}
				w := r.AllReduceAsync(r.ctx, a, colligo.Sum)
				r.stuckAt(2, timing)
				es := collectivesOf(r.Dump(flight.DumpOptions{Entries: true, OnlyActive: active}).Entries)
				require.Len(r.t, es, map[bool]int{true: 1, false: 2}[active])
				stuck := es[len(es)-1]
				require.Equal(r.t, []any{"nccl:all_reduce", uint64(2), r.hung(timing)}, []any{stuck.Name, stuck.Seq, stuck.State})
				require.Zero(r.t, stuck.DiscoveredCompleted)
				require.False(r.t, stuck.Retired)
				r.tell()
				r.waited(w)
			})
		})
	}
}

// stuckAt waits until collective n of the rank is recorded in the state of an operation that waits for its peer. It returns the record,
// and that of another state if a minute has passed: a device may need a moment to begin.
func (r *rank) stuckAt(n int, timing bool) (e flight.Entry) {
	for range 60_000 {
		if es := collectivesOf(r.entries()); len(es) == n {
			if e = es[n-1]; e.State == r.hung(timing) {
				break
			}
		}
		time.Sleep(time.Millisecond)
	}
	return e
}

// collectivesOf leaves out messages.
func collectivesOf(all []flight.Entry) (es []flight.Entry) {
	for _, e := range all {
		if !e.P2P {
			es = append(es, e)
		}
	}
	return es
}

// TestTraceWhileStuck dumps while an operation hangs that one rank does not call: from another goroutine, for the caller waits.
func TestTraceWhileStuck(t *testing.T) {
	timings(t, 2, options{}, func(r *rank, timing bool) {
		a := r.matrix()
		r.waited(r.AllReduceAsync(r.ctx, a, colligo.Sum))
		require.NoError(r.t, r.WaitPending(r.ctx))
		if r.Rank() == 0 {
			r.hearAll()
			es := collectivesOf(r.entries())
			last := es[len(es)-1]
			require.Equal(r.t, []any{"nccl:all_reduce", uint64(1), flight.Completed}, []any{last.Name, last.Seq, last.State})
			r.waited(r.AllReduceAsync(r.ctx, a, colligo.Sum))
			return
		}
		seen := make(chan flight.Entry, 1)
		go func() {
			seen <- r.stuckAt(2, timing)
			r.tell() // so that rank 0 goes on
		}()
		r.waited(r.AllReduceAsync(r.ctx, a, colligo.Sum))
		stuck := <-seen
		require.Equal(r.t, []any{"nccl:all_reduce", uint64(2), r.hung(timing)}, []any{stuck.Name, stuck.Seq, stuck.State})
		require.Zero(r.t, stuck.DiscoveredCompleted)
		require.False(r.t, stuck.Retired)
	})
}

// TestIndividualSendRecv counts messages apart from collectives.
func TestIndividualSendRecv(t *testing.T) {
	timings(t, 2, options{}, func(r *rank, timing bool) {
		shapes := [][]int{{2, 3}, {5, 5, 5}, {1}}
		for i := range 12 {
			shape := shapes[i%3]
			n := 1
			for _, d := range shape {
				n *= d
			}
			x := full(r, n, float32(0)).Strided(0, shape, rowMajor(shape))
			if r.Rank() == 0 {
				r.waited(r.RecvAsync(r.ctx, x, 1, 0))
			} else {
				r.waited(r.SendAsync(r.ctx, x, 0, 0))
			}
		}
		require.NoError(r.t, r.WaitPending(r.ctx))
		es := r.entries()
		require.Len(r.t, es, 12)
		for i, e := range es {
			require.Equal(r.t, []string{"nccl:recv 0<-1", "nccl:send 1->0"}[r.Rank()], e.Name)
			require.Equal(r.t, []uint64{0, uint64(i + 1), uint64(i + 1)}, []uint64{e.Seq, e.P2PSeq, e.OpID})
			require.Equal(r.t, e.InSizes, e.OutSizes)
			require.Len(r.t, e.InSizes[0], len(shapes[i%3]))
			require.True(r.t, e.P2P)
			require.Equal(r.t, flight.Completed, e.State)
			require.Equal(r.t, timing, e.Duration >= 0)
		}
	})
}
