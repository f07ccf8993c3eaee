package pg_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/pgtest"
)

// peersOf returns a rank's counts by peer, zero for a peer with whom nothing has passed.
func peersOf(g *pg.Group) []pg.PeerMetrics {
	all := make([]pg.PeerMetrics, g.Size())
	for i := range all {
		all[i].Peer = i
	}
	for _, p := range g.Metrics().Peers {
		all[p.Peer] = p
	}
	return all
}

// TestTrafficByAlgorithm counts the bytes that each algorithm sends by what its definition says.
func TestTrafficByAlgorithm(t *testing.T) {
	const ranks, n, times = 4, 1000, 3 // float32
	for algo, want := range map[string]func(rank, peer int) (bytes, messages uint64){
		"ring": func(rank, peer int) (uint64, uint64) { // two rounds of ranks - 1 parts to the next rank
			if peer != (rank+1)%ranks {
				return 0, 0
			}
			return 2 * (ranks - 1) * 4 * n / ranks, 2 * (ranks - 1)
		},
		"direct": func(rank, peer int) (uint64, uint64) { return 4 * n, 1 }, // the whole tensor to every peer
	} {
		pgtest.RunWith(t, ranks, pgtest.Options{Config: func(_ int, c *pg.Config) { c.Algo = map[string]string{"all_reduce": algo} }}, func(t *testing.T, g *pg.Group) {
			for range times {
				require.NoError(t, g.AllReduce(t.Context(), colligo.Of(make([]float32, n)), colligo.Sum))
			}
			for peer, p := range peersOf(g) {
				if peer == g.Rank() {
					require.Equal(t, pg.PeerMetrics{Peer: peer}, p)
					continue
				}
				sent, messages := want(g.Rank(), peer)
				got, back := want(peer, g.Rank())
				require.Equal(t, pg.PeerMetrics{Peer: peer, SentBytes: times * sent, SentMessages: times * messages, ReceivedBytes: times * got,
					ReceivedMessages: times * back}, p, algo)
			}
		})
	}
}

// TestTrafficAgrees has all kinds of operations. Bytes sent by one rank are the bytes received by its peer.
func TestTrafficAgrees(t *testing.T) {
	const ranks = 5
	for _, transport := range []string{"sim", "shm", "tcp"} {
		t.Run("transport="+transport, func(t *testing.T) {
			needs(t, transport)
			var mu sync.Mutex
			all := make([][]pg.PeerMetrics, ranks)
			pgtest.RunWith(t, ranks, pgtest.Options{Transport: transport, RealTime: transport != "sim"}, func(t *testing.T, g *pg.Group) {
				ctx, x := t.Context(), colligo.Of(make([]float32, 100))
				require.NoError(t, g.AllReduce(ctx, x, colligo.Sum))
				require.NoError(t, g.AllReduceAsync(ctx, x, colligo.Max).Wait(ctx))
				require.NoError(t, g.Broadcast(ctx, x, 2))
				require.NoError(t, g.Reduce(ctx, x, 1, colligo.Sum))
				in := colligo.Of(make([]int32, g.Rank()*ranks))
				splits, from, sum := make([]int, ranks), make([]int, ranks), 0
				for i := range splits {
					splits[i], from[i] = g.Rank(), i
					sum += i
				}
				require.NoError(t, g.AllToAllSingle(ctx, colligo.Of(make([]int32, sum)), in, from, splits))
				next, last := (g.Rank()+1)%ranks, (g.Rank()+ranks-1)%ranks
				works, err := pg.BatchIsendIrecv(ctx, []pg.P2P{{Op: pg.Isend, Tensor: x, Peer: next, Group: g}, {Op: pg.Irecv, Tensor: colligo.Of(make([]float32, 100)), Peer: last, Group: g}})
				require.NoError(t, err)
				for _, w := range works {
					require.NoError(t, w.Wait(ctx))
				}
				if g.Rank() > 0 {
					require.NoError(t, g.Send(ctx, colligo.Of([]int16{1, 2}), 0, 0))
				} else {
					for range ranks - 1 {
						_, err := g.RecvAny(ctx, colligo.Of([]int16{1, 2}), 0)
						require.NoError(t, err)
					}
				}
				require.NoError(t, g.Barrier(ctx))
				mu.Lock()
				defer mu.Unlock()
				all[g.Rank()] = peersOf(g)
			})
			if t.Failed() {
				return
			}
			for i := range all {
				require.Zero(t, all[i][i].SentMessages)
				for j := range all {
					require.Equal(t, all[i][j].SentBytes, all[j][i].ReceivedBytes, "from %d to %d", i, j)
					require.Equal(t, all[i][j].SentMessages, all[j][i].ReceivedMessages, "from %d to %d", i, j)
				}
				require.GreaterOrEqual(t, all[i][(i+1)%ranks].SentBytes, uint64(400+4*i), "the message around the ring, and the part of the all-to-all")
			}
		})
	}
}

// TestTrafficOfFailed counts what is done alone, and nothing of the operation that failed.
func TestTrafficOfFailed(t *testing.T) {
	pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
		x := make([]float32, 10+g.Rank())
		require.NoError(t, g.AllReduce(t.Context(), colligo.Of(x[:10]), colligo.Sum))
		was := g.Metrics().Peers
		require.Len(t, was, 1)
		require.ErrorIs(t, g.AllReduce(t.Context(), colligo.Of(x), colligo.Sum), colligo.ErrMismatch)
		require.Equal(t, was, g.Metrics().Peers)
	})
}

// TestTrafficWhileRunning asks while operations run.
func TestTrafficWhileRunning(t *testing.T) {
	pgtest.RunWith(t, 2, pgtest.Options{Transport: "tcp", RealTime: true}, func(t *testing.T, g *pg.Group) {
		stop := make(chan struct{})
		var asks sync.WaitGroup
		asks.Go(func() {
			last := uint64(0)
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond):
				}
				if now := peersOf(g)[1-g.Rank()].SentBytes; now < last {
					t.Errorf("%d bytes after %d", now, last)
				} else {
					last = now
				}
			}
		})
		for i := range 600 { // of more shapes than plans are kept
			require.NoError(t, g.AllReduce(t.Context(), colligo.Of(make([]float64, 1+i)), colligo.Sum))
		}
		close(stop)
		asks.Wait()
		p := peersOf(g)[1-g.Rank()]
		require.Equal(t, p.SentBytes, p.ReceivedBytes)
	})
}
