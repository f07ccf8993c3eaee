package pg_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/flight"
	"github.com/colligo-go/colligo/pg/pgtest"
)

// strided returns every second element of x.
func strided(x []float32) colligo.Tensor {
	return colligo.Of(x).Strided(0, []int{len(x) / 2}, []int{2})
}

// lengthsOf are those of lists: empty, small, and too large to share a plan with others.
func lengthsOf(k int) []int {
	all := []int{3, 0, 1, 700, 64, scaled(60_000), 5, 6, scaled(30_000), 1000}
	return all[:min(k, len(all))]
}

// coalesced runs one coalesced form on lists whose tensors have the given lengths, and checks each against the definition.
var coalesced = map[string]func(t *testing.T, g *pg.Group, ns []int){
	"all_reduce": func(t *testing.T, g *pg.Group, ns []int) {
		var xs [][]float32
		for i, n := range ns {
			xs = append(xs, filled(g.Rank(), n, i))
		}
		require.NoError(t, g.AllReduceCoalesced(t.Context(), tensors(xs), colligo.Sum))
		for i, n := range ns {
			equal(t, sum(g.Size(), n, i), xs[i], "tensor %d", i)
		}
	},
	"all_gather_into": func(t *testing.T, g *pg.Group, ns []int) {
		var ins, outs [][]float32
		for i, n := range ns {
			ins, outs = append(ins, filled(g.Rank(), n, i)), append(outs, make([]float32, n*g.Size()))
		}
		require.NoError(t, g.AllGatherIntoTensorCoalesced(t.Context(), tensors(outs), tensors(ins)))
		for i, n := range ns {
			want := []float32{}
			for r := range g.Size() {
				want = append(want, filled(r, n, i)...)
			}
			equal(t, want, outs[i], "tensor %d", i)
		}
	},
	"all_gather": func(t *testing.T, g *pg.Group, ns []int) {
		var ins [][]float32
		var outs [][]colligo.Tensor
		var got [][][]float32
		for i, n := range ns {
			ins, got = append(ins, filled(g.Rank(), n, i)), append(got, parts(g.Size(), n))
			outs = append(outs, tensors(got[i]))
		}
		require.NoError(t, g.AllGatherCoalesced(t.Context(), outs, tensors(ins)))
		for i, n := range ns {
			for r := range g.Size() {
				equal(t, filled(r, n, i), got[i][r], "tensor %d of rank %d", i, r)
			}
		}
	},
	"reduce_scatter_tensor": func(t *testing.T, g *pg.Group, ns []int) {
		var ins, outs [][]float32
		for i, n := range ns {
			ins, outs = append(ins, filled(g.Rank(), n*g.Size(), i)), append(outs, make([]float32, n))
		}
		require.NoError(t, g.ReduceScatterTensorCoalesced(t.Context(), tensors(outs), tensors(ins), colligo.Sum))
		for i, n := range ns {
			equal(t, sum(g.Size(), n, i+n*g.Rank()), outs[i], "tensor %d", i)
			equal(t, filled(g.Rank(), n*g.Size(), i), ins[i], "input %d is only read", i)
		}
	},
	"broadcast": func(t *testing.T, g *pg.Group, ns []int) {
		for root := range g.Size() {
			var xs [][]float32
			for i, n := range ns {
				xs = append(xs, filled(g.Rank(), n, i))
			}
			require.NoError(t, g.BroadcastCoalesced(t.Context(), tensors(xs), 1<<(2*root), root))
			for i, n := range ns {
				equal(t, filled(root, n, i), xs[i], "tensor %d", i)
			}
		}
	},
}

// TestCoalescedForms runs each on lists of several lengths.
func TestCoalescedForms(t *testing.T) {
	for _, transport := range []string{"sim", "shm"} {
		for _, size := range []int{1, 2, 3, 5} {
			for name, check := range coalesced {
				t.Run(fmt.Sprintf("transport=%s/size=%d/form=%s", transport, size, name), func(t *testing.T) {
					needs(t, transport)
					pgtest.RunWith(t, size, pgtest.Options{Transport: transport}, func(t *testing.T, g *pg.Group) {
						for _, k := range []int{1, 2, 5, 10} {
							check(t, g, lengthsOf(k))
						}
					})
				})
			}
		}
	}
}

// TestCoalescedStrided gives ranks tensors of the same lengths of which some are not contiguous, on some of the ranks.
func TestCoalescedStrided(t *testing.T) {
	const size, n = 3, 6
	pgtest.Run(t, size, func(t *testing.T, g *pg.Group) {
		here := func(i int, x []float32) colligo.Tensor { // x has 2n elements, of which the even ones or the first n count
			if (i+g.Rank())%2 == 0 {
				return strided(x)
			}
			return colligo.Of(x[:len(x)/2])
		}
		at := func(i int, x []float32, j int) float32 {
			if (i+g.Rank())%2 == 0 {
				return x[2*j]
			}
			return x[j]
		}
		ones := func(n int) []float32 {
			x := make([]float32, 2*n)
			for i := range x {
				x[i] = 1
			}
			return x
		}
		xs, outs, sums := parts(4, 0), parts(4, 0), parts(4, 0)
		var reduced, ins, gathered, scattered, wide []colligo.Tensor
		for i := range xs {
			xs[i], outs[i], sums[i] = ones(n), make([]float32, 2*n*size), make([]float32, 2*n)
			reduced, gathered = append(reduced, here(i, xs[i])), append(gathered, here(i, outs[i]))
			ins, scattered = append(ins, here(i, ones(n))), append(scattered, here(i, sums[i]))
			wide = append(wide, here(i, ones(n*size)))
		}
		require.NoError(t, g.AllReduceCoalesced(t.Context(), reduced, colligo.Sum))
		require.NoError(t, g.AllGatherIntoTensorCoalesced(t.Context(), gathered, ins))
		require.NoError(t, g.ReduceScatterTensorCoalesced(t.Context(), scattered, wide, colligo.Sum))
		for i := range xs {
			for j := range n {
				require.EqualValues(t, size, at(i, xs[i], j))
				require.EqualValues(t, size, at(i, sums[i], j))
			}
			for j := range n * size {
				require.EqualValues(t, 1, at(i, outs[i], j))
			}
			if (i+g.Rank())%2 == 0 {
				require.EqualValues(t, 1, xs[i][1], "what lies between is left alone")
				require.Zero(t, outs[i][1])
			}
		}
	})
}

// TestBroadcastCoalescedTypes mixes types, as the parameters and buffers of a module do.
func TestBroadcastCoalescedTypes(t *testing.T) {
	for _, size := range []int{1, 4} {
		for _, buffer := range []int{0, 1, 256, 1 << 20} {
			pgtest.Run(t, size, func(t *testing.T, g *pg.Group) {
				var ts []colligo.Tensor
				var bytes [][]byte
				for i := range 40 {
					d := []colligo.DType{colligo.Float16, colligo.Float32, colligo.Int64, colligo.Float16}[i%4]
					b := make([]byte, d.Size()*i)
					for j := range b {
						b[j] = byte((g.Rank()+1)*i + j)
					}
					bytes, ts = append(bytes, b), append(ts, colligo.Bytes(b, d))
				}
				root := size / 2
				require.NoError(t, g.BroadcastCoalesced(t.Context(), ts, buffer, root))
				for i, b := range bytes {
					for j := range b {
						require.Equal(t, byte((root+1)*i+j), b[j])
					}
				}
				require.NoError(t, g.BroadcastCoalesced(t.Context(), nil, buffer, root), "a module without parameters")
			})
		}
	}
}

// mix fills a batch with one of everything and returns what checks the results.
func mix(t *testing.T, g *pg.Group, b *pg.Batch) func() {
	me, size, n := g.Rank(), g.Size(), 50
	x, y, z := filled(me, n, 0), filled(me, n, 1), filled(me, n, 2)
	all, sums, swapped := make([]float32, n*size), make([]float32, n), make([]float32, n*size)
	got, mine := make([]float32, n), make([]float32, n)
	var list [][]float32
	if me == 0 {
		list = parts(size, n)
	}
	b.AllReduce(colligo.Of(x), colligo.Sum)
	b.AllReduce(colligo.Of(y), colligo.Sum)
	b.Broadcast(colligo.Of(z), size-1)
	b.AllGatherIntoTensor(colligo.Of(all), colligo.Of(filled(me, n, 3)))
	b.Recv(colligo.Of(got), (me+size-1)%size, 7)
	b.ReduceScatterTensor(colligo.Of(sums), colligo.Of(filled(me, n*size, 4)), colligo.Sum)
	b.Send(colligo.Of(filled(me, n, 5)), (me+1)%size, 7)
	b.AllToAllSingle(colligo.Of(swapped), colligo.Of(filled(me, n*size, 6)), nil, nil)
	b.Gather(tensors(list), colligo.Of(filled(me, n, 7)), 0)
	b.Reduce(colligo.Of(mine), 0, colligo.Max)
	return func() {
		equal(t, sum(size, n, 0), x)
		equal(t, sum(size, n, 1), y)
		equal(t, filled(size-1, n, 2), z)
		equal(t, sum(size, n, 4+n*me), sums)
		equal(t, filled((me+size-1)%size, n, 5), got)
		for r := range size {
			equal(t, filled(r, n, 3), all[r*n:][:n])
			equal(t, filled(r, n, 6+n*me), swapped[r*n:][:n])
			if me == 0 {
				equal(t, filled(r, n, 7), list[r])
			}
		}
	}
}

// TestBlock launches one of everything at once, blocking and not, between other operations.
func TestBlock(t *testing.T) {
	for _, transport := range []string{"sim", "shm"} {
		t.Run("transport="+transport, func(t *testing.T) {
			needs(t, transport)
			pgtest.RunWith(t, 3, pgtest.Options{Transport: transport}, func(t *testing.T, g *pg.Group) {
				for i := range 6 {
					var check func()
					before := g.BroadcastAsync(t.Context(), colligo.Of(make([]byte, 1000)), i%3)
					fill := func(b *pg.Batch) error {
						check = mix(t, g, b)
						return nil
					}
					if i%2 == 0 {
						require.NoError(t, g.Coalesce(t.Context(), fill))
					} else {
						w := g.CoalesceAsync(t.Context(), fill)
						after := g.BarrierAsync(t.Context())
						require.NoError(t, w.Wait(t.Context()))
						<-w.Done()
						require.NoError(t, w.Err())
						require.Equal(t, pg.OpCoalesced, w.OpType())
						require.Contains(t, w.String(), "coalesced ")
						ts, err := w.Result()
						require.NoError(t, err)
						require.Len(t, ts, map[int]int{0: 12, 1: 9, 2: 9}[g.Rank()])
						require.NoError(t, after.Wait(t.Context()))
					}
					check()
					require.NoError(t, before.Err())
				}
				require.NoError(t, g.Coalesce(t.Context(), func(*pg.Batch) error { return nil }), "a block without operations")
				require.NoError(t, g.CoalesceAsync(t.Context(), func(*pg.Batch) error { return nil }).Wait(t.Context()))
			})
		})
	}
}

// TestBlockOfOneRank carries operations out without a mesh.
func TestBlockOfOneRank(t *testing.T) {
	pgtest.Run(t, 1, func(t *testing.T, g *pg.Group) {
		x, out := filled(0, 9, 0), make([]float32, 9)
		require.NoError(t, g.Coalesce(t.Context(), func(b *pg.Batch) error {
			b.AllReduce(colligo.Of(x), colligo.Sum)
			b.AllGatherIntoTensor(colligo.Of(out), colligo.Of(x))
			return nil
		}))
		equal(t, filled(0, 9, 0), out)
		w := g.AllReduceCoalescedAsync(t.Context(), []colligo.Tensor{colligo.Of(x), colligo.Of(out)}, colligo.Sum)
		require.NoError(t, w.Wait(t.Context()))
		results, err := w.Result()
		require.NoError(t, err)
		require.Equal(t, []colligo.Tensor{colligo.Of(x), colligo.Of(out)}, results)
		require.Equal(t, "all_reduce 2 of group 0", w.String(), "which stands for both, as in larger groups")
		w = g.CoalesceAsync(t.Context(), func(b *pg.Batch) error {
			b.AllReduce(colligo.Of(x), colligo.Sum)
			b.Broadcast(colligo.Of(out), 0)
			return nil
		})
		require.NoError(t, w.Wait(t.Context()))
		require.Equal(t, "coalesced 3 of group 0", w.String())
	})
}

// TestBlockLaunchesNothing has a block fail before its end: no rank has called anything.
func TestBlockLaunchesNothing(t *testing.T) {
	pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
		x, why := filled(g.Rank(), 9, 0), errors.New("no")
		err := g.Coalesce(t.Context(), func(b *pg.Batch) error {
			b.AllReduce(colligo.Of(x), colligo.Sum)
			return why
		})
		require.ErrorIs(t, err, why)
		var kept *pg.Batch
		err = g.CoalesceAsync(t.Context(), func(b *pg.Batch) error {
			kept = b
			b.AllReduce(colligo.Of(x), colligo.Sum)
			b.Broadcast(colligo.Of(x), 2)
			return nil
		}).Wait(t.Context())
		require.ErrorContains(t, err, "broadcast (float32, 36 B, root 2): operation 2 of 2 in a block: root 2 of a group of 2 ranks")
		require.PanicsWithValue(t, "pg: a batch is used after its block has ended", func() { kept.AllReduce(colligo.Of(x), colligo.Sum) })
		equal(t, filled(g.Rank(), 9, 0), x)
		require.NoError(t, g.Barrier(t.Context()), "the ranks are still at the same place")
	})
}

// TestBlockMismatch has the ranks give other blocks. Both sides hear of both calls.
func TestBlockMismatch(t *testing.T) {
	for says, fill := range map[string]func(b *pg.Batch, x colligo.Tensor, rank int){
		"(3 float32 elements, sum)": func(b *pg.Batch, x colligo.Tensor, rank int) {
			for range 1 + rank {
				b.AllReduce(x.Slice(0, 3), colligo.Sum)
			}
		},
		"(4 float32 elements, sum, block ": func(b *pg.Batch, x colligo.Tensor, rank int) {
			b.AllReduce(x.Slice(0, 3-2*rank), colligo.Sum)
			b.AllReduce(x.Slice(0, 1+2*rank), colligo.Sum)
		},
		"(4 float32 elements, root 0, block ": func(b *pg.Batch, x colligo.Tensor, rank int) {
			b.Broadcast(x.Slice(0, 3-2*rank), 0)
			b.Broadcast(x.Slice(0, 1+2*rank), 0)
		},
		"all_reduce #1.1 (5 float32 elements, sum)": func(b *pg.Batch, x colligo.Tensor, rank int) {
			b.AllReduce(x, colligo.Max)
			if rank == 0 {
				b.Broadcast(x.Slice(0, 5), 0)
			} else {
				b.AllReduce(x.Slice(0, 5), colligo.Sum)
			}
		},
	} {
		var got errorsOf
		pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
			x := make([]float32, 5)
			err := g.Coalesce(t.Context(), func(b *pg.Batch) error {
				fill(b, colligo.Of(x), g.Rank())
				return nil
			})
			if err == nil {
				err = g.Barrier(t.Context())
			}
			got.add(g, err)
		})
		for rank := range 2 {
			require.ErrorIs(t, got.byRank[rank], colligo.ErrMismatch)
			require.ErrorContains(t, got.byRank[rank], says)
		}
	}
}

// TestBlockTimeout names the rank that is missing and the operation at hand; the Work ends.
func TestBlockTimeout(t *testing.T) {
	pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
		if g.Rank() == 1 {
			time.Sleep(time.Minute)
			return
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		w := g.CoalesceAsync(ctx, func(b *pg.Batch) error {
			mix(t, g, b)
			return nil
		})
		require.NoError(t, w.Err())
		err := w.Wait(t.Context())
		require.ErrorIs(t, err, colligo.ErrTimeout)
		require.ErrorContains(t, err, "all_reduce #1 (float32 sum, 400 B, 2 tensors): rank 1 has not entered after 3s")
		require.ErrorIs(t, w.Err(), colligo.ErrTimeout)
	})
}

// TestBlockRecorded sees a list that shares a plan as one entry. Other blocks are an entry for each operation and one for
// all, under one number.
func TestBlockRecorded(t *testing.T) {
	pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
		ctx := t.Context()
		row := func() colligo.Tensor { return colligo.Of(make([]float32, 2)) }
		square := func() colligo.Tensor { return colligo.Of(make([]float32, 4), 2, 2) }
		ts := func(f func() colligo.Tensor) []colligo.Tensor { return []colligo.Tensor{f(), f()} }
		require.NoError(t, g.ReduceScatterTensorCoalesced(ctx, ts(row), ts(square), colligo.Sum))
		require.NoError(t, g.AllGatherIntoTensorCoalescedAsync(ctx, ts(square), ts(row)).Wait(ctx))
		require.NoError(t, g.AllReduceCoalesced(ctx, ts(row), colligo.Sum))
		require.NoError(t, g.Coalesce(ctx, func(b *pg.Batch) error {
			b.AllReduce(row(), colligo.Sum)
			b.Broadcast(square(), 0)
			if g.Rank() == 0 {
				b.Send(row(), 1, 0)
			} else {
				b.Recv(row(), 0, 0)
			}
			return nil
		}))
		require.NoError(t, g.Barrier(ctx))
		require.NoError(t, g.WaitPending(ctx))
		pair := []string{"nccl:send 0->1", "nccl:recv 1<-0"}[g.Rank()]
		var got []string
		for _, e := range entries(g) {
			got = append(got, fmt.Sprint(e.Name, " ", e.Seq, " ", e.OpID, " ", e.InSizes, " ", e.OutSizes))
			require.Equal(t, flight.Completed, e.State, e.Name)
			require.True(t, calledFrom(e, "batch_test.go"), "%s: %v", e.Name, e.Frames)
		}
		require.Equal(t, []string{
			"nccl:reduce_scatter_tensor_coalesced 1 1 [[2 2] [2 2]] [[2] [2]]",
			"nccl:all_gather_into_tensor_coalesced 2 2 [[2] [2]] [[2 2] [2 2]]",
			"nccl:allreduce_coalesced 3 3 [[2] [2]] [[2] [2]]",
			"nccl:all_reduce 4 4 [[2]] [[2]]", "nccl:broadcast 4 5 [[2 2]] [[2 2]]", pair + " 4 6 [[2]] [[2]]", "nccl:coalesced 4 7 [] []",
			"nccl:all_reduce_barrier 5 8 [[1]] [[1]]",
		}, got)
	})
}

// TestPairsRecorded has a block of sends and receives count among those, also the entry that stands for all. Other ranks may
// have one operation only, or none, and no such entry.
func TestPairsRecorded(t *testing.T) {
	pgtest.Run(t, 3, func(t *testing.T, g *pg.Group) {
		ctx := t.Context()
		require.NoError(t, g.Barrier(ctx))
		require.NoError(t, g.Coalesce(ctx, func(b *pg.Batch) error {
			if g.Rank() > 0 {
				b.Recv(f32(2), g.Rank()-1, 0)
			}
			if g.Rank() < 2 {
				b.Send(f32(2), g.Rank()+1, 0)
			}
			return nil
		}))
		require.NoError(t, g.WaitPending(ctx))
		es := entries(g)
		require.Len(t, es, []int{2, 4, 2}[g.Rank()])
		for _, e := range es[1:] {
			require.True(t, e.P2P, e.Name)
			require.EqualValues(t, 1, e.P2PSeq, e.Name)
		}
	})
}

// TestBlockNaN looks for NaNs in every operation of a block before one is launched.
func TestBlockNaN(t *testing.T) {
	o := pgtest.Options{Config: func(_ int, c *pg.Config) { c.Debug.NaNCheck = pg.On }}
	pgtest.RunWith(t, 2, o, func(t *testing.T, g *pg.Group) {
		x, y := f32(3), colligo.Of([]float32{0, float32(math.NaN())})
		require.NoError(t, g.AllReduceCoalesced(t.Context(), []colligo.Tensor{x, x}, colligo.Sum))
		if g.Rank() == 1 {
			require.ErrorContains(t, g.AllReduceCoalesced(t.Context(), []colligo.Tensor{x, y}, colligo.Sum), "NaN in float32 tensor 0 at element 1")
			return
		}
		require.ErrorContains(t, g.AllReduceCoalesced(t.Context(), []colligo.Tensor{x, x}, colligo.Sum), "NaN in float32 tensor 0 at element 1")
	})
}

// BenchmarkCoalesced reduces 100 tensors of 1 KiB one by one, as a list, and as one tensor.
func BenchmarkCoalesced(b *testing.B) {
	const k = 100
	for _, transport := range []string{"shm", "tcp"} {
		for _, bytes := range []int{64, 1 << 10, 4 << 10, 16 << 10, 64 << 10} {
			for _, form := range []string{"single", "list", "flat"} {
				b.Run(fmt.Sprintf("transport=%s/tensors=%d/bytes=%d/form=%s", transport, k, bytes, form), func(b *testing.B) {
					needs(b, transport)
					groups := link(b, transport, 2)
					lists, flats := make([][]colligo.Tensor, 2), make([]colligo.Tensor, 2)
					for r := range lists {
						flats[r] = colligo.Of(make([]float32, k*bytes/4))
						for range k {
							lists[r] = append(lists[r], colligo.Of(make([]float32, bytes/4)))
						}
					}
					ctx := context.Background()
					call := map[string]func(g *pg.Group) error{
						"single": func(g *pg.Group) error {
							for _, x := range lists[g.Rank()] {
								if err := g.AllReduce(ctx, x, colligo.Sum); err != nil {
									return err
								}
							}
							return nil
						},
						"list": func(g *pg.Group) error { return g.AllReduceCoalesced(ctx, lists[g.Rank()], colligo.Sum) },
						"flat": func(g *pg.Group) error { return g.AllReduce(ctx, flats[g.Rank()], colligo.Sum) },
					}[form]
					together(b, groups, 10, call)
					b.SetBytes(int64(k * bytes))
					b.ReportAllocs()
					b.ResetTimer()
					together(b, groups, b.N, call)
				})
			}
		}
	}
}
