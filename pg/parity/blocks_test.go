package parity

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/flight"
)

// mixed gives a block operations that are not merged: two collectives, a message to the next rank and one from the rank before.
func (r *rank) mixed(b *pg.Batch) error {
	b.AllReduce(full(r, 30, float32(1)), colligo.Sum)
	b.Broadcast(full(r, 20, float32(1)), 0)
	return r.ringed(b)
}

// ringed gives a block messages alone.
func (r *rank) ringed(b *pg.Batch) error {
	b.Send(full(r, 7, float32(r.Rank())), (r.Rank()+1)%r.Size(), 0)
	b.Recv(full(r, 7, float32(0)), (r.Rank()+r.Size()-1)%r.Size(), 0)
	return nil
}

// single gives a block one operation.
func (r *rank) single(b *pg.Batch) error {
	b.Broadcast(full(r, 20, float32(1)), 0)
	return nil
}

// brief prints what a record says of an operation's kind and numbers.
func brief(e flight.Entry) string {
	name, _, _ := strings.Cut(e.Name, "->") // of a message the peer differs by rank
	name, _, _ = strings.Cut(name, "<-")
	if e.P2P && !strings.HasSuffix(name, "coalesced") {
		name = name[:strings.LastIndex(name, " ")]
	}
	return fmt.Sprintf("%s %d %d %d %v", strings.TrimPrefix(name, "nccl:"), e.Seq, e.P2PSeq, e.OpID, e.P2P)
}

// unmerged are three blocks that have a record for each operation and one for all, and one of a single operation.
var unmerged = []string{
	"all_reduce 1 0 1 false", "broadcast 1 0 2 false", "send 1 1 3 true", "recv 1 1 4 true", "coalesced 1 1 5 false",
	"send 1 2 6 true", "recv 1 2 7 true", "coalesced 1 2 8 true",
	"broadcast 2 2 9 false",
	"all_reduce 3 2 10 false", "broadcast 3 2 11 false", "send 3 3 12 true", "recv 3 3 13 true", "coalesced 3 3 14 false",
}

// TestUnmergedBlocks has all media record a block whose operations are of several kinds alike: each operation, and one that stands for
// all. They have one number among collectives and one among messages. Works and hooks know the block by the same.
func TestUnmergedBlocks(t *testing.T) {
	for _, n := range []int{1, 2, 3} {
		t.Run(fmt.Sprintf("ranks=%d", n), func(t *testing.T) {
			timings(t, n, options{}, func(r *rank, timing bool) {
				var heard []string
				r.OnCompletion(func(i pg.WorkInfo) {
					require.NoError(r.t, i.Err)
					heard = append(heard, fmt.Sprint(i.Op, " ", i.Seq, " ", i.Bytes))
				})
				works := []*pg.Work{r.CoalesceAsync(r.ctx, r.mixed), r.CoalesceAsync(r.ctx, r.ringed), r.CoalesceAsync(r.ctx, r.single)}
				require.NoError(r.t, r.Coalesce(r.ctx, r.mixed))
				for _, w := range works {
					r.waited(w)
				}
				require.NoError(r.t, r.WaitPending(r.ctx))
				for i, want := range []struct {
					op  pg.OpType
					seq uint64
				}{{pg.OpCoalesced, 1}, {pg.OpCoalesced, 2}, {pg.OpBroadcast, 2}} {
					w := works[i]
					require.Equal(r.t, want.op, w.OpType(), "%v", w)
					require.Equal(r.t, want.seq, w.Seq(), "%v", w)
					require.True(r.t, w.IsSuccess())
					_, err := w.Duration()
					require.Equal(r.t, timing || r.gpu == nil, err == nil, "%v: %v", w, err)
				}
				var got []string
				for _, e := range r.entries() {
					got = append(got, brief(e))
					r.done(e, timing)
					require.Equal(r.t, r.limit(), e.Timeout)
					require.True(r.t, strings.HasSuffix(e.Frames[0].File, "blocks_test.go"), "%s: %v", e.Name, e.Frames)
				}
				require.Equal(r.t, unmerged, got)
				require.Equal(r.t, flight.Status{LastEnqueued: 3, LastStarted: 3, LastCompleted: 3}, r.status())
				require.ElementsMatch(r.t, []string{
					"ALLREDUCE 1 120", "BROADCAST 1 80", "SEND 1 28", "RECV 1 28", "COALESCED 1 0", "SEND 2 28", "RECV 2 28", "COALESCED 2 0",
					"BROADCAST 2 80", "ALLREDUCE 3 120", "BROADCAST 3 80", "SEND 3 28", "RECV 3 28", "COALESCED 3 0",
				}, heard)
				require.Equal(r.t, "COALESCED 3 0", heard[len(heard)-1], "a block is over when its operations are")
			})
		})
	}
}

// TestUnmergedBlockWhileStuck dumps while a block waits for a rank that does not come. The operation that stands for it waits as well.
func TestUnmergedBlockWhileStuck(t *testing.T) {
	timings(t, 2, options{}, func(r *rank, timing bool) {
		r.summed()
		before := len(r.entries())
		if r.Rank() == 0 {
			require.NoError(r.t, r.Store().Wait(r.t.Context(), "dumped"))
			require.NoError(r.t, r.Coalesce(r.ctx, r.mixed))
			require.NoError(r.t, r.WaitPending(r.t.Context()))
			return
		}
		w := r.CoalesceAsync(r.ctx, r.mixed)
		var es []flight.Entry
		for range 6000 { // the device may need a moment
			if es = r.entries()[before:]; es[0].State == r.hung(timing) && es[4].State == r.hung(timing) {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		require.Len(r.t, es, 5)
		require.Equal(r.t, r.hung(timing), es[0].State)
		require.Equal(r.t, "nccl:coalesced", es[4].Name)
		require.Equal(r.t, r.hung(timing), es[4].State)
		require.False(r.t, es[4].Retired)
		require.False(r.t, w.IsCompleted())
		require.NoError(r.t, r.Store().Set(r.t.Context(), "dumped", nil))
		r.waited(w)
		require.NoError(r.t, r.WaitPending(r.t.Context()))
		for _, e := range r.entries()[before:] {
			r.done(e, timing)
		}
	})
}

// TestUnmergedBlockFails ends a group under a block. Hooks hear of the block with the error of its operations, and no record of it is
// that of a success.
func TestUnmergedBlockFails(t *testing.T) {
	timings(t, 2, options{}, func(r *rank, timing bool) {
		r.summed()
		before := len(r.entries())
		if r.Rank() == 0 {
			require.NoError(r.t, r.Store().Wait(r.t.Context(), "called"))
			r.Abort(errors.New("of no use"))
			return
		}
		heard := map[pg.OpType]error{}
		r.OnCompletion(func(i pg.WorkInfo) { heard[i.Op] = i.Err })
		w := r.CoalesceAsync(r.ctx, r.mixed)
		require.NoError(r.t, r.Store().Set(r.t.Context(), "called", nil))
		require.ErrorContains(r.t, w.Synchronize(context.Background()), "of no use")
		require.NoError(r.t, r.WaitPending(r.t.Context()))
		es := r.entries()[before:]
		require.Len(r.t, es, 5)
		for _, i := range []int{0, 4} {
			require.NotEqual(r.t, flight.Completed, es[i].State)
			require.True(r.t, es[i].Retired)
		}
		require.Len(r.t, heard, 5)
		require.ErrorContains(r.t, heard[pg.OpAllReduce], "of no use")
		require.ErrorContains(r.t, heard[pg.OpCoalesced], "of no use")
	})
}

// lateRank comes three seconds after the others to collectives that all call alike. Meanwhile each has told its peers what it has called.
const lateRank = 2

// TestLateIsNoMismatch has a rank come late to calls of each form, on every medium.
func TestLateIsNoMismatch(t *testing.T) {
	beside(t)
	counts := []int{3, 0, 5}
	for name, call := range map[string]func(r *rank) *pg.Work{
		"merged all_reduce": func(r *rank) *pg.Work {
			return r.AllReduceCoalescedAsync(r.ctx, []colligo.Tensor{full(r, 3, float32(1)), full(r, 5, float32(1))}, colligo.Sum)
		},
		"merged broadcast": func(r *rank) *pg.Work {
			return r.CoalesceAsync(r.ctx, func(b *pg.Batch) error {
				b.Broadcast(full(r, 3, float32(1)), lateRank)
				b.Broadcast(full(r, 5, float32(1)), lateRank)
				return nil
			})
		},
		"unmerged": func(r *rank) *pg.Work {
			return r.CoalesceAsync(r.ctx, func(b *pg.Batch) error {
				b.AllReduce(full(r, 3, float32(1)), colligo.Sum)
				b.AllGatherIntoTensor(full(r, 15, float32(1)), full(r, 5, float32(1)))
				return nil
			})
		},
		"uneven all_gather": func(r *rank) *pg.Work {
			outs := []colligo.Tensor{full(r, counts[0], float32(0)), full(r, counts[1], float32(0)), full(r, counts[2], float32(0))}
			return r.AllGatherAsync(r.ctx, outs, full(r, counts[r.Rank()], float32(1)))
		},
		"uneven all_to_all": func(r *rank) *pg.Work {
			return r.AllToAllSingleAsync(r.ctx, full(r, 9, float32(0)), full(r, 9, float32(1)), []int{3, 3, 3}, []int{3, 3, 3})
		},
	} {
		t.Run(name, func(t *testing.T) {
			beside(t)
			eachWith(t, 3, options{waits: true, config: func(_ int, c *pg.Config) { c.Timeout = time.Minute }}, func(r *rank) {
				r.summed()
				if r.Rank() == lateRank {
					time.Sleep(3 * time.Second)
				}
				require.NoError(r.t, call(r).Synchronize(r.t.Context()))
				r.summed()
			})
		})
	}
}
