package pg_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/pgtest"
	"github.com/colligo-go/colligo/pg/tuning"
	"github.com/colligo-go/colligo/plan"
	"github.com/colligo-go/colligo/transport/sim"
)

// TestTagsOutOfOrder receives messages in another order than that of their sending; messages of one tag stay in order.
func TestTagsOutOfOrder(t *testing.T) {
	const tags, each, n = 20, 3, 5000
	pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
		if g.Rank() == 0 {
			for i := range tags * each {
				require.NoError(t, g.Send(t.Context(), colligo.Of(filled(i%tags, n, i/tags)), 1, i%tags))
			}
			return
		}
		for _, tag := range rand.New(rand.NewPCG(1, 1)).Perm(tags) {
			for i := range each {
				x := make([]float32, n)
				require.NoError(t, g.Recv(t.Context(), colligo.Of(x), 0, tag))
				require.Equal(t, filled(tag, n, i), x, "tag %d, message %d", tag, i)
			}
		}
	})
}

// TestManyPending posts receives and sends of all pairs at once, in random order, on a network that reorders.
func TestManyPending(t *testing.T) {
	const size, tags = 4, 30
	for seed := range uint64(5) {
		o := pgtest.Options{Seed: seed + 1, Sim: sim.Config{MaxDelay: time.Millisecond, Reorder: true}}
		pgtest.RunWith(t, size, o, func(t *testing.T, g *pg.Group) {
			me := g.Rank()
			xs := map[[2]int][]float32{}
			var works []*pg.Work
			for _, i := range rand.New(rand.NewPCG(seed, uint64(me))).Perm(2 * size * tags) {
				peer, tag := i/2/tags, i/2%tags
				switch {
				case peer == me:
				case i%2 == 0:
					works = append(works, g.SendAsync(t.Context(), colligo.Of(filled(me, 10*tag, peer)), peer, tag))
				default:
					x := make([]float32, 10*tag)
					xs[[2]int{peer, tag}] = x
					works = append(works, g.RecvAsync(t.Context(), colligo.Of(x), peer, tag))
				}
			}
			for _, w := range works {
				require.NoError(t, w.Wait(t.Context()))
			}
			for key, x := range xs {
				require.Equal(t, filled(key[0], 10*key[1], me), x)
			}
			require.Len(t, xs, (size-1)*tags)
		})
	}
}

// TestRecvAny takes one message from every peer, whoever comes first.
func TestRecvAny(t *testing.T) {
	const size = 5
	pgtest.Run(t, size, func(t *testing.T, g *pg.Group) {
		if me := g.Rank(); me > 0 {
			time.Sleep(time.Duration(size-me) * time.Second) // the highest first
			require.NoError(t, g.Send(t.Context(), colligo.Of(filled(me, 7, 0)), 0, 9))
			require.NoError(t, g.Send(t.Context(), colligo.Of(filled(me, 7, 1)), 0, 8))
			return
		}
		for i := range size - 1 {
			x := make([]float32, 7)
			from, err := g.RecvAny(t.Context(), colligo.Of(x), 9)
			require.NoError(t, err)
			require.Equal(t, size-1-i, from)
			require.Equal(t, filled(from, 7, 0), x)
		}
		seen := map[int]bool{}
		for range size - 1 { // these have been waiting
			x := make([]float32, 7)
			w := g.RecvAnyAsync(t.Context(), colligo.Of(x), 8)
			require.NoError(t, w.Wait(t.Context()))
			require.Equal(t, filled(w.Source(), 7, 1), x)
			seen[w.Source()] = true
		}
		require.Len(t, seen, size-1)
	})
}

// TestRecvAnyOfNobody ends when every peer has left.
func TestRecvAnyOfNobody(t *testing.T) {
	pgtest.Run(t, 3, func(t *testing.T, g *pg.Group) {
		if g.Rank() > 0 {
			time.Sleep(time.Duration(g.Rank()) * time.Minute)
			return
		}
		start := time.Now()
		_, err := g.RecvAny(t.Context(), colligo.Of([]int8{0}), 0)
		require.ErrorIs(t, err, colligo.ErrPeerLost)
		require.InDelta(t, 2*time.Minute, time.Since(start), float64(time.Second))
	})
}

// TestBothWays has two goroutines of each rank block in opposite directions with messages far beyond the credit.
func TestBothWays(t *testing.T) {
	const n = 1 << 20
	pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
		me, x := g.Rank(), make([]float32, n)
		var all sync.WaitGroup
		all.Go(func() {
			if err := g.Send(t.Context(), colligo.Of(filled(me, n, 0)), 1-me, 0); err != nil {
				t.Error(err)
			}
		})
		require.NoError(t, g.Recv(t.Context(), colligo.Of(x), 1-me, 0))
		all.Wait()
		require.Equal(t, filled(1-me, n, 0), x)
	})
}

// TestPairsBesideCollectives has messages pass a collective that waits for the receiver of the messages.
func TestPairsBesideCollectives(t *testing.T) {
	pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
		x := filled(g.Rank(), 100, 0)
		if g.Rank() == 0 {
			w := g.AllReduceAsync(t.Context(), colligo.Of(x), colligo.Sum)
			for i := range 10 {
				y := make([]float32, i)
				require.NoError(t, g.Recv(t.Context(), colligo.Of(y), 1, i))
				require.Equal(t, filled(1, i, 0), y)
				require.NoError(t, g.Send(t.Context(), colligo.Of(y), 1, i))
			}
			require.Nil(t, w.Err())
			require.NoError(t, w.Wait(t.Context()))
		} else {
			for i := range 10 {
				require.NoError(t, g.Send(t.Context(), colligo.Of(filled(1, i, 0)), 0, i))
				require.NoError(t, g.Recv(t.Context(), colligo.Of(make([]float32, i)), 0, i))
			}
			require.NoError(t, g.AllReduce(t.Context(), colligo.Of(x), colligo.Sum))
		}
		require.Equal(t, sum(2, 100, 0), x)
	})
}

// TestUnexpectedLimit sends a message that is too large for the unexpected queue. It holds up the messages behind it until
// it is received.
func TestUnexpectedLimit(t *testing.T) {
	const large = 65 << 20
	pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
		if g.Rank() == 0 {
			w := g.SendAsync(t.Context(), colligo.Of(make([]byte, large)), 1, 1)
			require.NoError(t, g.Send(t.Context(), colligo.Of([]byte{7}), 1, 2))
			require.NoError(t, w.Wait(t.Context()))
			return
		}
		x := []byte{0}
		behind := g.RecvAsync(t.Context(), colligo.Of(x), 0, 2)
		time.Sleep(time.Minute)
		select {
		case <-behind.Done():
			t.Error("a message of 65 MiB was put aside")
		default:
		}
		require.NoError(t, g.Recv(t.Context(), colligo.Of(make([]byte, large)), 0, 1))
		require.NoError(t, behind.Wait(t.Context()))
		require.Equal(t, []byte{7}, x)
	})
}

// TestPairMismatch has a message not fit its receive. The receiver says what both wanted, and the sender hears of it.
func TestPairMismatch(t *testing.T) {
	for says, x := range map[string]colligo.Tensor{
		"rank 0 sends 3 float32 elements with tag 4, this rank receives 2 float32 elements": colligo.Of(make([]float32, 2)),
		"rank 0 sends 3 float32 elements with tag 4, this rank receives 3 int32 elements":   colligo.Of(make([]int32, 3)),
		"rank 0 sends 3 float32 elements with tag 4, this rank receives 0 float32 elements": colligo.Of([]float32{}),
	} {
		for _, stashed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/stashed=%v", says[47:], stashed), func(t *testing.T) {
				var got errorsOf
				pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
					if g.Rank() == 0 {
						require.NoError(t, g.Send(t.Context(), colligo.Of(make([]float32, 3)), 1, 4))
						if stashed {
							require.NoError(t, g.Send(t.Context(), colligo.Of([]bool{true}), 1, 5))
						}
						got.add(g, g.Recv(t.Context(), colligo.Of([]bool{true}), 1, 0))
						return
					}
					if stashed {
						require.NoError(t, g.Recv(t.Context(), colligo.Of([]bool{false}), 0, 5))
					}
					got.add(g, g.Recv(t.Context(), x, 0, 4))
				})
				for rank := range 2 {
					require.ErrorIs(t, got.byRank[rank], colligo.ErrMismatch)
					require.ErrorContains(t, got.byRank[rank], says)
				}
				var e *colligo.OpError
				require.ErrorAs(t, got.byRank[1], &e)
				require.Equal(t, "recv", e.Op)
				require.False(t, e.Second)
				require.Zero(t, e.Seq, "messages take no number")
				require.ErrorAs(t, got.byRank[0], &e)
				require.True(t, e.Second)
			})
		}
	}
}

// TestPairTimeout names the peer that has not sent, and is a first cause.
func TestPairTimeout(t *testing.T) {
	pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
		if g.Rank() == 1 {
			time.Sleep(time.Minute)
			return
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		err := g.Recv(ctx, colligo.Of([]float32{0}), 1, 3)
		require.ErrorIs(t, err, colligo.ErrTimeout)
		require.EqualError(t, err, "recv (float32, 4 B): nothing from rank 1 with tag 3 after 2s; rank 1 has nothing pending [rank 0 of group 0]")
	})
}

// TestOtherTag names the tag of a message that has come where another was awaited.
func TestOtherTag(t *testing.T) {
	for _, any := range []bool{false, true} {
		pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
			x := colligo.Of([]float32{0})
			if g.Rank() == 1 {
				for range 2 {
					require.NoError(t, g.Send(t.Context(), x, 0, 5))
				}
				time.Sleep(time.Minute)
				return
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			from, err := "any", error(nil)
			if any {
				_, err = g.RecvAny(ctx, x, 3)
			} else {
				from, err = "1", g.Recv(ctx, x, 1, 3)
			}
			require.ErrorIs(t, err, colligo.ErrTimeout)
			require.ErrorContains(t, err, fmt.Sprintf("nothing from rank %s with tag 3 after 2s; a message of rank 1 with tag 5 has come, which nothing receives", from))
		})
	}
}

// TestUnexpectedOfTheDead loses a peer in the middle of a message that nobody has asked for, while another is awaited.
func TestUnexpectedOfTheDead(t *testing.T) {
	var net *sim.Net
	o := pgtest.Options{Net: func(n *sim.Net) { net = n }, Sim: sim.Config{MaxDelay: time.Millisecond}}
	pgtest.RunWith(t, 2, o, func(t *testing.T, g *pg.Group) {
		if g.Rank() == 1 {
			net.KillAfter(1, 2)
			require.Error(t, g.Send(t.Context(), colligo.Of(make([]byte, 8<<20)), 0, 1))
			return
		}
		err := g.Recv(t.Context(), colligo.Of([]byte{0}), 1, 2)
		require.ErrorIs(t, err, colligo.ErrPeerLost)
		var e *colligo.OpError
		require.ErrorAs(t, err, &e)
		require.Equal(t, "recv", e.Op)
		require.False(t, e.Second)
		require.ErrorContains(t, err, "rank 1")
	})
}

// TestAllToAllForms mixes ranks that give splits with ranks that do not.
func TestAllToAllForms(t *testing.T) {
	const size, n = 4, 30_000
	table := []tuning.Rule{{Coll: plan.AllToAll, MaxBytes: 1000, Algo: "rotation", ChunkBytes: 64}, {Coll: plan.AllToAll, Algo: "rotation", ChunkBytes: 1 << 20}}
	o := pgtest.Options{Config: func(_ int, c *pg.Config) { c.Tuning = table }}
	pgtest.RunWith(t, size, o, func(t *testing.T, g *pg.Group) {
		in, out := filled(g.Rank(), size*n, 0), make([]float32, size*n)
		var want []float32
		for r := range size {
			want = append(want, filled(r, n, n*g.Rank())...)
		}
		even := []int{n, n, n, n}
		forms := [][2][]int{{nil, nil}, {even, even}, {nil, even}, {even, nil}}
		for i := range forms {
			f := forms[(g.Rank()+i)%size]
			clear(out)
			require.NoError(t, g.AllToAllSingle(t.Context(), colligo.Of(out), colligo.Of(in), f[0], f[1]))
			require.Equal(t, want, out)
		}
		if g.Rank() == 2 {
			require.NoError(t, g.AllToAll(t.Context(), tensors(cut(even, 0, false)), tensors(cut(even, 0, true))))
		} else {
			require.NoError(t, g.AllToAllSingle(t.Context(), colligo.Of(out), colligo.Of(in), nil, nil))
		}
	})
}

// TestAllToAllMismatch has two ranks disagree about what goes from one to the other.
func TestAllToAllMismatch(t *testing.T) {
	var got errorsOf
	pgtest.Run(t, 3, func(t *testing.T, g *pg.Group) {
		to := []int{1, 1, 1}
		if g.Rank() == 2 {
			to = []int{5, 1, 1}
		}
		in, out := make([]int16, to[0]+2), make([]int16, 3)
		err := g.AllToAllSingle(t.Context(), colligo.Of(out), colligo.Of(in), nil, to)
		if err == nil {
			err = g.Barrier(t.Context())
		}
		got.add(g, err)
	})
	for rank := range 3 {
		require.ErrorIs(t, got.byRank[rank], colligo.ErrMismatch)
		require.ErrorContains(t, got.byRank[rank], "rank 2 sends 5 elements to this rank in all_to_all #1 (int16 elements), this rank expects 1")
	}
}

// TestRecvAnyAfterHalfAMessage has the only sender leave in the middle of a message with another tag. A receive from any
// rank hears of it, and does not wait for the timeout.
func TestRecvAnyAfterHalfAMessage(t *testing.T) {
	pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
		if g.Rank() == 1 {
			g.SendAsync(t.Context(), zeros[byte](32<<20), 0, 2)
			time.Sleep(time.Second)
			return
		}
		time.Sleep(time.Minute)
		_, err := g.RecvAny(t.Context(), zeros[byte](1), 1)
		require.ErrorIs(t, err, colligo.ErrPeerLost)
	})
}

// TestRecvAfterHalfAMessage has a peer close its group in the middle of a message over TCP that nobody has asked for. A
// receive of another message from it hears of it, and does not wait for the timeout.
func TestRecvAfterHalfAMessage(t *testing.T) {
	t.Parallel()
	half, gone := make(chan bool), make(chan bool)
	pgtest.RunWith(t, 2, pgtest.Options{Transport: "tcp"}, func(t *testing.T, g *pg.Group) {
		if g.Rank() == 1 {
			g.SendAsync(t.Context(), zeros[byte](60<<20), 0, 2)
			time.Sleep(100 * time.Millisecond) // for as much of it as the sockets take
			close(half)
			defer close(gone)
			requireNamed(t, g, g.Close(), "send #1")
			return
		}
		<-half
		<-gone
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorIs(t, g.Recv(ctx, zeros[byte](1), 1, 1), colligo.ErrPeerLost)
	})
}
