package pg_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/flight"
	"github.com/colligo-go/colligo/pg/pgtest"
)

var everything = flight.DumpOptions{Entries: true, Frames: true}

// entries returns what the recorder has of a group, by name.
func entries(g *pg.Group) []flight.Entry {
	var own []flight.Entry
	for _, e := range g.Dump(everything).Entries {
		if e.Group == g.Name() {
			own = append(own, e)
		}
	}
	return own
}

func matrix(g *pg.Group) colligo.Tensor {
	return colligo.Of([]float32{11: float32(g.Rank())}, 3, 4)
}

// calledFrom reports whether an operation was called from a file.
func calledFrom(e flight.Entry, file string) bool {
	return len(e.Frames) > 0 && strings.HasSuffix(e.Frames[0].File, file)
}

// TestShort records two operations, with and without durations.
func TestShort(t *testing.T) {
	for _, timing := range []bool{true, false} {
		t.Run(fmt.Sprintf("timing=%v", timing), func(t *testing.T) {
			pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
				if timing {
					g.SetTiming(true)
				}
				before := time.Now()
				a := matrix(g)
				for range 2 {
					require.NoError(t, g.AllReduceAsync(t.Context(), a, colligo.Sum).Wait(t.Context()))
				}
				d := g.Dump(everything)
				require.Equal(t, "2.10", d.Version)
				require.Equal(t, map[string]flight.Group{"0": {Name: "0", Desc: "default_pg", Ranks: []int{0, 1}}}, d.Groups)
				require.Equal(t, map[string]flight.Status{"0": {LastEnqueued: 2, LastStarted: 2, LastCompleted: 2}}, d.Status)
				require.Len(t, d.Entries, 2)
				last := d.Entries[1]
				require.Equal(t, "nccl:all_reduce", last.Name)
				require.Equal(t, []string{"0", "default_pg"}, []string{last.Group, last.Desc})
				require.Equal(t, flight.Completed, last.State)
				require.True(t, last.Retired)
				require.Equal(t, int64(1), last.ID)
				require.LessOrEqual(t, last.DiscoveredStarted, last.DiscoveredCompleted)
				require.True(t, calledFrom(last, "record_test.go"), "%v", last.Frames)
				require.Equal(t, [][]int64{{3, 4}}, last.InSizes)
				require.Equal(t, [][]int64{{3, 4}}, last.OutSizes)
				require.Equal(t, []string{"Float"}, last.InTypes)
				require.Equal(t, []string{"Float"}, last.OutTypes)
				require.Equal(t, []uint64{2, 0, 2}, []uint64{last.Seq, last.P2PSeq, last.OpID})
				require.Equal(t, g.Timeout(), last.Timeout)
				require.False(t, last.P2P)
				require.GreaterOrEqual(t, last.Created, before.UnixNano())
				require.Equal(t, timing, last.Duration >= 0, "%v", last.Duration)
				require.Nil(t, g.Dump(flight.DumpOptions{}).Entries)
			})
		})
	}
}

// TestLong goes round a short ring of entries.
func TestLong(t *testing.T) {
	o := pgtest.Options{Config: func(_ int, c *pg.Config) { c.Recorder.Entries = 10 }}
	pgtest.RunWith(t, 2, o, func(t *testing.T, g *pg.Group) {
		ctx, a := t.Context(), matrix(g)
		for range 2 {
			all := []colligo.Tensor{matrix(g), matrix(g)}
			for _, err := range []error{
				g.Broadcast(ctx, a, 0), g.AllReduce(ctx, a, colligo.Sum), g.Reduce(ctx, a, 0, colligo.Sum), g.AllGather(ctx, all, a),
				g.ReduceScatter(ctx, a, all, colligo.Sum), g.AllReduce(ctx, a, colligo.Sum),
			} {
				require.NoError(t, err)
			}
		}
		es := entries(g)
		require.Len(t, es, 10)
		require.Equal(t, uint64(9), es[9].Seq-es[0].Seq)
		require.Equal(t, "nccl:all_reduce", es[9].Name)
		require.Equal(t, flight.Completed, es[9].State)
		require.True(t, calledFrom(es[9], "record_test.go"))
	})
}

// TestTagsRecorded has the tags of a message on both sides, and none in a collective.
func TestTagsRecorded(t *testing.T) {
	pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
		a := matrix(g)
		require.NoError(t, g.AllReduce(t.Context(), a, colligo.Sum))
		if g.Rank() == 0 {
			require.NoError(t, g.Send(t.Context(), a, 1, -5))
		} else {
			require.NoError(t, g.Recv(t.Context(), a, 0, -5))
		}
		es := entries(g)
		require.Len(t, es, 2)
		require.False(t, es[0].Tagged)
		require.True(t, es[1].Tagged)
		require.Equal(t, int32(-5), es[1].Tag)
	})
}

func TestTraceWhileAllWorksRetired(t *testing.T) {
	o := pgtest.Options{Config: func(_ int, c *pg.Config) { c.Recorder.Entries = 10 }}
	pgtest.RunWith(t, 2, o, func(t *testing.T, g *pg.Group) {
		for range 12 {
			require.NoError(t, g.BroadcastAsync(t.Context(), matrix(g), 0).Wait(t.Context()))
		}
		require.NoError(t, g.WaitPending(t.Context()))
		es := entries(g)
		require.Len(t, es, 10)
		for _, e := range es {
			require.True(t, e.Retired)
			require.Equal(t, flight.Completed, e.State)
		}
	})
}

// TestTraceWhileActive dumps while one rank has called an operation that the other has not.
func TestTraceWhileActive(t *testing.T) {
	for _, active := range []bool{true, false} {
		t.Run(fmt.Sprintf("only_active=%v", active), func(t *testing.T) {
			pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
				a := matrix(g)
				require.NoError(t, g.AllReduce(t.Context(), a, colligo.Sum))
				var w, behind *pg.Work
				if g.Rank() != 0 {
					w, behind = g.AllReduceAsync(t.Context(), a, colligo.Sum), g.BarrierAsync(t.Context())
				}
				time.Sleep(time.Duration(2-g.Rank()) * time.Minute)
				es := g.Dump(flight.DumpOptions{Entries: true, OnlyActive: active}).Entries
				if g.Rank() == 0 {
					require.Len(t, es, map[bool]int{true: 0, false: 1}[active])
					require.NoError(t, g.AllReduce(t.Context(), a, colligo.Sum))
					require.NoError(t, g.Barrier(t.Context()))
					return
				}
				require.Len(t, es, map[bool]int{true: 2, false: 3}[active])
				stuck, waits := es[len(es)-2], es[len(es)-1]
				require.Equal(t, uint64(2), stuck.Seq)
				require.Equal(t, flight.Started, stuck.State)
				require.Zero(t, stuck.DiscoveredCompleted)
				require.Equal(t, flight.Scheduled, waits.State)
				require.False(t, stuck.Retired)
				require.NoError(t, w.Wait(t.Context()))
				require.NoError(t, behind.Wait(t.Context()))
			})
		})
	}
}

// TestTraceWhileStuck dumps what has timed out: it is retired, and not completed.
func TestTraceWhileStuck(t *testing.T) {
	o := pgtest.Options{Config: func(_ int, c *pg.Config) { c.Timeout, c.Recorder.DumpOnError = 10*time.Second, pg.Off }}
	pgtest.RunWith(t, 2, o, func(t *testing.T, g *pg.Group) {
		a := matrix(g)
		require.NoError(t, g.AllReduce(t.Context(), a, colligo.Sum))
		if g.Rank() == 0 {
			time.Sleep(time.Minute)
			require.Len(t, entries(g), 1)
			return
		}
		require.ErrorIs(t, g.AllReduce(t.Context(), a, colligo.Sum), colligo.ErrTimeout)
		es := entries(g)
		require.Len(t, es, 2)
		require.Equal(t, uint64(2), es[1].Seq)
		require.Equal(t, flight.Started, es[1].State)
		require.True(t, es[1].Retired)
		require.Equal(t, flight.Status{LastEnqueued: 2, LastStarted: 2, LastCompleted: 1}, g.Dump(everything).Status["0"])
		require.Error(t, g.Barrier(t.Context()))
		require.Len(t, entries(g), 2, "what is refused takes no number")
	})
}

// TestTraceOfDeadline records the limit that an operation has: what its context leaves it, and else the group's.
func TestTraceOfDeadline(t *testing.T) {
	pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		a, peer := matrix(g), 1-g.Rank()
		require.NoError(t, g.AllReduce(ctx, a, colligo.Sum))
		require.NoError(t, g.AllReduce(t.Context(), a, colligo.Sum))
		require.NoError(t, g.Coalesce(ctx, func(b *pg.Batch) error {
			b.AllReduce(a, colligo.Sum)
			b.Send(matrix(g), peer, 1)
			b.Recv(matrix(g), peer, 1)
			b.Broadcast(matrix(g), 0)
			return nil
		}))
		for i, e := range entries(g) {
			want := time.Minute
			if i == 1 {
				want = g.Timeout()
			}
			require.Equal(t, want, e.Timeout, "%d: %s", i, e.Name)
		}
	})
}

// TestIndividualSendRecv counts messages apart from collectives.
func TestIndividualSendRecv(t *testing.T) {
	for _, timing := range []bool{true, false} {
		t.Run(fmt.Sprintf("timing=%v", timing), func(t *testing.T) {
			pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
				g.SetTiming(timing)
				shapes := [][]int{{2, 3}, {5, 5, 5}, {1}}
				for i := range 30 {
					shape := shapes[i%3]
					n := 1
					for _, d := range shape {
						n *= d
					}
					x := colligo.Of(make([]float32, n), shape...)
					if g.Rank() == 0 {
						require.NoError(t, g.Recv(t.Context(), x, 1, 0))
					} else {
						require.NoError(t, g.Send(t.Context(), x, 0, 0))
					}
				}
				es := entries(g)
				require.Len(t, es, 30)
				for i, e := range es {
					require.Equal(t, []string{"nccl:recv 0<-1", "nccl:send 1->0"}[g.Rank()], e.Name)
					require.Equal(t, []uint64{0, uint64(i + 1), uint64(i + 1)}, []uint64{e.Seq, e.P2PSeq, e.OpID})
					require.Equal(t, e.InSizes, e.OutSizes)
					require.Len(t, e.InSizes[0], len(shapes[i%3]))
					require.True(t, e.P2P)
					require.Equal(t, flight.Completed, e.State)
					require.Equal(t, timing, e.Duration >= 0)
				}
			})
		})
	}
}

// recordedCall is a call and how it is recorded on rank 0 and rank 1 of two.
type recordedCall struct {
	name    string
	call    func(ctx context.Context, g *pg.Group) error
	op      pg.OpType
	in, out [2][][]int64
}

func both(sizes ...[]int64) [2][][]int64 { return [2][][]int64{sizes, sizes} }

// recordedCalls has every collective, on tensors of 2 x 3 elements.
var recordedCalls = []recordedCall{
	{"nccl:all_reduce", func(ctx context.Context, g *pg.Group) error { return g.AllReduce(ctx, six(), colligo.Sum) },
		pg.OpAllReduce, both([]int64{2, 3}), both([]int64{2, 3})},
	{"nccl:broadcast", func(ctx context.Context, g *pg.Group) error { return g.Broadcast(ctx, six(), 1) },
		pg.OpBroadcast, both([]int64{2, 3}), both([]int64{2, 3})},
	{"nccl:reduce", func(ctx context.Context, g *pg.Group) error { return g.Reduce(ctx, six(), 1, colligo.Sum) },
		pg.OpReduce, both([]int64{2, 3}), both([]int64{2, 3})},
	{"nccl:all_gather", func(ctx context.Context, g *pg.Group) error { return g.AllGather(ctx, sixes(), six()) },
		pg.OpAllGather, both([]int64{2, 3}), both([]int64{12})},
	{"nccl:_all_gather_base", func(ctx context.Context, g *pg.Group) error { return g.AllGatherIntoTensor(ctx, twelve(), six()) },
		pg.OpAllGatherBase, both([]int64{2, 3}), both([]int64{12})},
	{"nccl:reduce_scatter", func(ctx context.Context, g *pg.Group) error { return g.ReduceScatter(ctx, six(), sixes(), colligo.Sum) },
		pg.OpReduceScatter, both([]int64{12}), both([]int64{2, 3})},
	{"nccl:_reduce_scatter_base", func(ctx context.Context, g *pg.Group) error {
		return g.ReduceScatterTensor(ctx, six(), twelve(), colligo.Sum)
	}, pg.OpReduceScatterBase, both([]int64{12}), both([]int64{2, 3})},
	{"nccl:all_to_all", func(ctx context.Context, g *pg.Group) error {
		return g.AllToAllSingle(ctx, twelve(), twelve(), nil, nil)
	},
		pg.OpAllToAllBase, both([]int64{12}), both([]int64{12})},
	{"nccl:all_to_all", func(ctx context.Context, g *pg.Group) error { return g.AllToAll(ctx, sixes(), sixes()) },
		pg.OpAllToAll, both([]int64{12}), both([]int64{12})},
	{"nccl:all_to_all", func(ctx context.Context, g *pg.Group) error {
		own := []colligo.Tensor{six(), twelve()}[g.Rank()]
		return g.AllToAll(ctx, []colligo.Tensor{six(), own}, []colligo.Tensor{six(), colligo.Of(make([]int64, own.Len()))})
	}, pg.OpAllToAll, [2][][]int64{{{12}}, {{18}}}, [2][][]int64{{{12}}, {{18}}}},
	{"nccl:gather", func(ctx context.Context, g *pg.Group) error { return g.Gather(ctx, atRoot(g), six(), 1) },
		pg.OpGather, both([]int64{2, 3}), [2][][]int64{nil, {{2, 3}, {2, 3}}}},
	{"nccl:scatter", func(ctx context.Context, g *pg.Group) error { return g.Scatter(ctx, six(), atRoot(g), 1) },
		pg.OpScatter, [2][][]int64{nil, {{2, 3}, {2, 3}}}, both([]int64{2, 3})},
	{"nccl:all_reduce_barrier", func(ctx context.Context, g *pg.Group) error { return g.Barrier(ctx) },
		pg.OpBarrier, both([]int64{1}), both([]int64{1})},
	{"nccl:ALLGATHER_coalesced", func(ctx context.Context, g *pg.Group) error {
		return g.AllGather(ctx, []colligo.Tensor{six(), twelve()}, []colligo.Tensor{six(), twelve()}[g.Rank()])
	}, pg.OpAllGather, both([]int64{2, 3}, []int64{12}), both([]int64{2, 3}, []int64{12})},
	{"nccl:REDUCE_SCATTER_coalesced", func(ctx context.Context, g *pg.Group) error {
		return g.ReduceScatter(ctx, []colligo.Tensor{six(), twelve()}[g.Rank()], []colligo.Tensor{six(), twelve()}, colligo.Max)
	}, pg.OpReduceScatter, both([]int64{2, 3}, []int64{12}), both([]int64{2, 3}, []int64{12})},
	{"nccl:gather", func(ctx context.Context, g *pg.Group) error {
		parts := []colligo.Tensor{six(), twelve()}
		return g.GatherV(ctx, [][]colligo.Tensor{nil, parts}[g.Rank()], []colligo.Tensor{six(), twelve()}[g.Rank()], []int{6, 12}, 1)
	}, pg.OpGather, both([]int64{6}, []int64{12}), [2][][]int64{nil, {{2, 3}, {12}}}},
	{"nccl:scatter", func(ctx context.Context, g *pg.Group) error {
		parts := []colligo.Tensor{six(), twelve()}
		return g.ScatterV(ctx, []colligo.Tensor{six(), twelve()}[g.Rank()], [][]colligo.Tensor{nil, parts}[g.Rank()], []int{6, 12}, 1)
	}, pg.OpScatter, [2][][]int64{nil, {{2, 3}, {12}}}, both([]int64{6}, []int64{12})},
}

func six() colligo.Tensor     { return colligo.Of(make([]int64, 6), 2, 3) }
func twelve() colligo.Tensor  { return colligo.Of(make([]int64, 12)) }
func sixes() []colligo.Tensor { return []colligo.Tensor{six(), six()} }

func atRoot(g *pg.Group) []colligo.Tensor {
	if g.Rank() == 1 {
		return sixes()
	}
	return nil
}

// TestRecordedForms sees every collective recorded as c10d does, and hears of it from a hook.
func TestRecordedForms(t *testing.T) {
	for _, transport := range []string{"sim", "shm"} {
		t.Run("transport="+transport, func(t *testing.T) {
			needs(t, transport)
			pgtest.RunWith(t, 2, pgtest.Options{Transport: transport}, func(t *testing.T, g *pg.Group) {
				var heard []pg.WorkInfo
				g.OnCompletion(func(w pg.WorkInfo) { heard = append(heard, w) })
				for _, c := range recordedCalls {
					require.NoError(t, c.call(t.Context(), g), c.name)
				}
				require.NoError(t, g.WaitPending(t.Context()))
				es := entries(g)
				require.Len(t, es, len(recordedCalls))
				require.Len(t, heard, len(recordedCalls))
				for i, c := range recordedCalls {
					e := es[i]
					require.Equal(t, c.name, e.Name)
					require.Equal(t, fmt.Sprint(c.in[g.Rank()]), fmt.Sprint(e.InSizes), c.name)
					require.Equal(t, fmt.Sprint(c.out[g.Rank()]), fmt.Sprint(e.OutSizes), c.name)
					require.Equal(t, []uint64{uint64(i + 1), uint64(i + 1)}, []uint64{e.Seq, e.OpID}, c.name)
					require.Equal(t, flight.Completed, e.State, c.name)
					require.Equal(t, c.op, heard[i].Op, c.name)
					require.Equal(t, uint64(i+1), heard[i].Seq, c.name)
				}
			})
		})
	}
}

// TestRecordedGroups counts each group's operations by themselves, and none of pg's own.
func TestRecordedGroups(t *testing.T) {
	pgtest.Run(t, 3, func(t *testing.T, g *pg.Group) {
		sub, err := g.NewGroup(t.Context(), []int{2, 0})
		require.NoError(t, err)
		require.NoError(t, g.Barrier(t.Context()))
		if g.Rank() == 1 {
			require.Len(t, g.Dump(everything).Groups, 1)
			return
		}
		defer func() { require.NoError(t, sub.Close()) }()
		require.NoError(t, sub.AllReduce(t.Context(), matrix(g), colligo.Sum))
		d := g.Dump(everything)
		require.Equal(t, flight.Group{Name: sub.Name(), Desc: "undefined", Ranks: []int{0, 2}}, d.Groups[sub.Name()])
		require.Equal(t, flight.Group{Name: "0", Desc: "default_pg", Ranks: []int{0, 1, 2}}, d.Groups["0"])
		require.Len(t, d.Entries, 2)
		require.Equal(t, []uint64{1, 1}, []uint64{d.Entries[0].Seq, d.Entries[1].Seq})
		require.Equal(t, []string{"0", sub.Name()}, []string{d.Entries[0].Group, d.Entries[1].Group})
		require.Equal(t, []int{0, 1}, []int{d.Entries[0].PG, d.Entries[1].PG})
	})
}

// TestRecordedAlone records in a group of one rank too, with the caller's place.
func TestRecordedAlone(t *testing.T) {
	g := alone(t)
	require.NoError(t, g.AllReduce(t.Context(), matrix(g), colligo.Sum))
	w := g.BarrierAsync(t.Context())
	require.NoError(t, w.Wait(t.Context()))
	es := entries(g)
	require.Len(t, es, 2)
	require.Equal(t, "nccl:all_reduce", es[0].Name)
	require.Equal(t, uint64(2), es[1].Seq)
	require.Equal(t, uint64(2), w.Seq())
	for _, e := range es {
		require.Equal(t, flight.Completed, e.State)
		require.True(t, calledFrom(e, "record_test.go"), "%v", e.Frames)
	}
}

// TestRecorderOff runs without one.
func TestRecorderOff(t *testing.T) {
	o := pgtest.Options{Config: func(_ int, c *pg.Config) { c.Recorder.Entries = -1 }}
	pgtest.RunWith(t, 2, o, func(t *testing.T, g *pg.Group) {
		require.Nil(t, g.Recorder())
		w := g.AllReduceAsync(t.Context(), matrix(g), colligo.Sum)
		require.NoError(t, w.Wait(t.Context()))
		require.Equal(t, uint64(1), w.Seq())
		require.Empty(t, g.Dump(everything).Entries)
	})
}

// TestNumbersOfErrors has errors count as the recorder and works do, though the group has had collectives of its own.
func TestNumbersOfErrors(t *testing.T) {
	pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
		_, err := g.NewGroup(t.Context(), []int{})
		require.Error(t, err)
		sub, err := g.NewGroup(t.Context(), []int{0, 1})
		require.NoError(t, err)
		defer func() { require.NoError(t, sub.Close()) }()
		require.NoError(t, g.Coalesce(t.Context(), func(b *pg.Batch) error {
			for _, n := range []int{1, 1 << 20, 2} {
				b.AllReduce(colligo.Of(make([]float32, n)), colligo.Sum)
			}
			return nil
		}))
		require.NoError(t, g.Barrier(t.Context()))
		w := g.AllReduceAsync(t.Context(), colligo.Of(make([]float32, 5+g.Rank())), colligo.Sum)
		var e *colligo.OpError
		require.ErrorAs(t, w.Wait(t.Context()), &e)
		es := entries(g)
		require.Equal(t, []uint64{3, 3, 3}, []uint64{w.Seq(), e.Seq, es[len(es)-1].Seq})
		require.ErrorContains(t, e, "all_reduce #3 (")
	})
}
