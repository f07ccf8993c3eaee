package ddp_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/ddp"
	"github.com/colligo-go/colligo/pg/pgtest"
)

// model is parameters of some shapes with float32 gradients.
type model struct {
	grads  [][]float32
	params []ddp.Parameter
}

func newModel(shapes ...[]int) *model {
	m := &model{}
	for i, shape := range shapes {
		n := 1
		for _, d := range shape {
			n *= d
		}
		g := make([]float32, n)
		m.grads = append(m.grads, g)
		grad := colligo.Of(g, shape...)
		if len(shape) == 0 {
			grad = grad.Strided(0, shape, nil) // a scalar
		}
		m.params = append(m.params, ddp.Parameter{Name: fmt.Sprintf("w%d", i), Grad: grad})
	}
	return m
}

// fill sets gradient i to the value.
func (m *model) fill(i int, value float32) {
	for j := range m.grads[i] {
		m.grads[i][j] = value
	}
}

// step fills all gradients with the rank's number plus the parameter's, and reduces them in the given order.
func (m *model) step(ctx context.Context, r *ddp.Reducer, rank int, order []int) error {
	for _, i := range order {
		m.fill(i, float32(rank+i))
		if err := r.Ready(ctx, i); err != nil {
			return err
		}
	}
	return r.Finish(ctx)
}

func backwards(n int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = n - 1 - i
	}
	return order
}

// TestStep reduces in several orders, which need not be the same on all ranks, with one and with many buckets.
func TestStep(t *testing.T) {
	for _, bytes := range []int{1, 100, 1 << 20} {
		t.Run(fmt.Sprintf("bucket=%d", bytes), func(t *testing.T) {
			pgtest.Run(t, 3, func(t *testing.T, g *pg.Group) {
				m := newModel([]int{3, 4}, []int{4}, []int{5, 5}, []int{1}, []int{2, 2, 2})
				r, err := ddp.New(t.Context(), g, m.params, ddp.Options{FirstBucketBytes: bytes, BucketBytes: bytes})
				require.NoError(t, err)
				orders := [][]int{backwards(5), {0, 1, 2, 3, 4}, {3, 1, 4, 0, 2}}
				for k := range 4 {
					require.NoError(t, m.step(t.Context(), r, g.Rank(), orders[(k+g.Rank())%3]))
					for i, grad := range m.grads {
						for _, v := range grad {
							require.InDelta(t, float32(1+i), v, 1e-6)
						}
					}
				}
				seen := map[int]bool{}
				for _, b := range r.Buckets() {
					for _, i := range b.Params {
						require.False(t, seen[i])
						seen[i] = true
					}
				}
				require.Len(t, seen, 5)
			})
		})
	}
}

// TestRebuild has the buckets follow the order in which rank 0's gradients became ready in the first step.
func TestRebuild(t *testing.T) {
	pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
		m := newModel([]int{4}, []int{4}, []int{4})
		r, err := ddp.New(t.Context(), g, m.params, ddp.Options{FirstBucketBytes: 1, BucketBytes: 1})
		require.NoError(t, err)
		first := func() []int {
			var all []int
			for _, b := range r.Buckets() {
				all = append(all, b.Params...)
			}
			return all
		}
		require.Equal(t, []int{2, 1, 0}, first())
		order := [][]int{{1, 2, 0}, {0, 1, 2}}[g.Rank()]
		require.NoError(t, m.step(t.Context(), r, g.Rank(), order))
		require.Equal(t, []int{1, 2, 0}, first())
		require.NoError(t, m.step(t.Context(), r, g.Rank(), order))
	})
}

// TestMisuse has errors that name the parameter.
func TestMisuse(t *testing.T) {
	pgtest.Run(t, 1, func(t *testing.T, g *pg.Group) {
		m := newModel([]int{4}, []int{4})
		r, err := ddp.New(t.Context(), g, m.params, ddp.Options{})
		require.NoError(t, err)
		require.NoError(t, r.Ready(t.Context(), 1))
		require.ErrorContains(t, r.Ready(t.Context(), 1), "the gradient of w1 was ready twice in one step")
		require.ErrorContains(t, r.Ready(t.Context(), 2), "parameter 2 of 2")
		require.Equal(t, []int{0}, r.Missing())
		require.ErrorContains(t, r.Finish(t.Context()), "without gradients of 1 of 2 parameters (w0)")
		require.NoError(t, m.step(t.Context(), r, 0, backwards(2)), "the next step is as if nothing had happened")

		_, err = ddp.New(t.Context(), g, nil, ddp.Options{})
		require.ErrorContains(t, err, "no parameters")
		_, err = ddp.New(t.Context(), g, []ddp.Parameter{{Name: "n", Grad: colligo.Of([]int32{1})}}, ddp.Options{})
		require.ErrorContains(t, err, "n (int32 [1]): gradients of this type have no mean")
	})
}

// TestTypes mixes element types: each has buckets of its own.
func TestTypes(t *testing.T) {
	pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
		half := []uint16{colligo.Float16FromFloat32(float32(2 * g.Rank()))}
		brain := []uint16{colligo.BFloat16FromFloat32(float32(2 * g.Rank()))}
		single, double, pair := []float32{float32(g.Rank())}, []float64{float64(g.Rank())}, []complex64{complex(0, float32(g.Rank()))}
		params := []ddp.Parameter{{Grad: colligo.FromBits(half, colligo.Float16)}, {Grad: colligo.Of(single)},
			{Grad: colligo.FromBits(brain, colligo.BFloat16)}, {Grad: colligo.Of(double)}, {Grad: colligo.Of(pair)}}
		r, err := ddp.New(t.Context(), g, params, ddp.Options{})
		require.NoError(t, err)
		require.Len(t, r.Buckets(), 5)
		for i := range params {
			require.NoError(t, r.Ready(t.Context(), i))
		}
		require.NoError(t, r.Finish(t.Context()))
		require.Equal(t, float32(1), colligo.Float16ToFloat32(half[0]))
		require.Equal(t, float32(1), colligo.BFloat16ToFloat32(brain[0]))
		require.Equal(t, float32(0.5), single[0])
		require.Equal(t, 0.5, double[0])
		require.Equal(t, complex64(0.5i), pair[0])
	})
}

// TestPowerSGDConverges has the error feedback make the sum of many approximations come near the sum of the gradients.
func TestPowerSGDConverges(t *testing.T) {
	const n, steps = 8, 200
	pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
		m := newModel([]int{n, n})
		state, err := ddp.NewPowerSGD(ddp.PowerSGDOptions{Rank: 2, ErrorFeedback: true, WarmStart: true, MinCompressionRate: 1})
		require.NoError(t, err)
		r, err := ddp.New(t.Context(), g, m.params, ddp.Options{Hook: state.Hook})
		require.NoError(t, err)
		sum, want := make([]float64, n*n), make([]float64, n*n)
		for range steps {
			for i := range m.grads[0] {
				for rank := range 2 {
					v := math.Sin(float64(7*i + rank))
					want[i] += v / 2
					if rank == g.Rank() {
						m.grads[0][i] = float32(v)
					}
				}
			}
			require.NoError(t, r.Ready(t.Context(), 0))
			require.NoError(t, r.Finish(t.Context()))
			for i, v := range m.grads[0] {
				sum[i] += float64(v)
			}
		}
		for i := range sum {
			require.InDelta(t, want[i]/steps, sum[i]/steps, 0.05)
		}
		require.Less(t, slices.Max(sum), float64(steps))
	})
}
