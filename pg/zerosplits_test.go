package pg_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/pgtest"
	"github.com/colligo-go/colligo/transport/sim"
)

// TestZeroSplits moves blocks of which many are empty, also all of them.
func TestZeroSplits(t *testing.T) {
	for _, transport := range []string{"sim", "shm", "tcp"} {
		for _, size := range []int{1, 2, 3, 6} {
			t.Run(fmt.Sprintf("transport=%s/size=%d", transport, size), func(t *testing.T) {
				needs(t, transport)
				pgtest.RunWith(t, size, pgtest.Options{Transport: transport}, func(t *testing.T, g *pg.Group) {
					for seed := range uint64(30) {
						rng, from := rand.New(rand.NewPCG(seed, 0)), make([][]int, size) // from[a][b] elements go from a to b
						for a := range from {
							from[a] = make([]int, size)
							for b := range from[a] {
								from[a][b] = max(0, rng.IntN(40)-int(seed)) * (1 + 100*(b%2))
							}
						}
						var in, out, want []float32
						var to, fro []int
						for r := range size {
							to, fro = append(to, from[g.Rank()][r]), append(fro, from[r][g.Rank()])
							in = append(in, filled(g.Rank(), to[r], r)...)
							want = append(want, filled(r, fro[r], g.Rank())...)
						}
						out = make([]float32, len(want))
						require.NoError(t, g.AllToAllSingle(t.Context(), colligo.Of(out), colligo.Of(in), fro, to))
						equal(t, want, out)
					}
					require.NoError(t, g.AllToAllSingle(t.Context(), f32(0), f32(0), nil, nil))
				})
			})
		}
	}
}

// TestZeroSplitMismatch has one rank send what another does not expect, or not send what it does. It is found in this call, by at
// least the rank that receives, whatever the size and the delays.
func TestZeroSplitMismatch(t *testing.T) {
	for _, n := range []int{1, 300_000} {
		for _, sends := range []bool{true, false} {
			for seed := range uint64(4) {
				t.Run(fmt.Sprintf("elements=%d/sends=%v/seed=%d", n, sends, seed), func(t *testing.T) {
					var got errorsOf
					o := pgtest.Options{Seed: seed + 1, Sim: sim.Config{MaxDelay: time.Millisecond, Reorder: true}}
					pgtest.RunWith(t, 4, o, func(t *testing.T, g *pg.Group) {
						to, from := make([]int, 4), make([]int, 4)
						if g.Rank() == 3 && sends {
							to[1] = n
						}
						if g.Rank() == 1 && !sends {
							from[3] = n
						}
						in, out := make([]float32, to[1]), make([]float32, from[3])
						err := g.AllToAllSingle(t.Context(), colligo.Of(out), colligo.Of(in), from, to)
						if g.Rank() == 1 {
							require.ErrorContains(t, err, "all_to_all #1")
						}
						if err == nil {
							err = g.Barrier(t.Context())
						}
						got.add(g, err)
					})
					says := fmt.Sprintf("rank 3 sends %d elements to this rank in all_to_all #1 (float32 elements), this rank expects 0", n)
					if !sends {
						says = fmt.Sprintf("rank 3 sends 0 elements to this rank in all_to_all #1 (float32 elements), this rank expects %d", n)
					}
					for rank := range 4 {
						require.ErrorIs(t, got.byRank[rank], colligo.ErrMismatch)
						require.ErrorContains(t, got.byRank[rank], says)
					}
				})
			}
		}
	}
}

// TestSplitsWrap refuses splits that are the tensor's length together only where their sum wraps around.
func TestSplitsWrap(t *testing.T) {
	pgtest.Run(t, 3, func(t *testing.T, g *pg.Group) {
		wrong := []int{math.MaxInt, math.MaxInt, 2}
		err := g.AllToAllSingle(t.Context(), f32(0), f32(0), wrong, wrong)
		require.ErrorContains(t, err, fmt.Sprintf("3 splits of %d elements together for 3 ranks and a tensor of 0", math.MaxInt))
	})
}
