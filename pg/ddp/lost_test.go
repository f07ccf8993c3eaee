package ddp_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/kernels"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/ddp"
	"github.com/colligo-go/colligo/pg/pgtest"
	"github.com/colligo-go/colligo/transport/sim"
)

// slow is a network on which a reduction takes longer than what a test does meanwhile.
var slow = pgtest.Options{Sim: sim.Config{MinDelay: time.Second, MaxDelay: 2 * time.Second}}

// TestLostStep begins a step while reductions of the lost one before are under way: they do not touch its gradients.
func TestLostStep(t *testing.T) {
	pgtest.RunWith(t, 2, slow, func(t *testing.T, g *pg.Group) {
		m := newModel([]int{4}, []int{4}, []int{4})
		r, err := ddp.New(t.Context(), g, m.params, ddp.Options{FirstBucketBytes: 1, BucketBytes: 1})
		require.NoError(t, err)
		for range 3 {
			m.fill(2, 1000)
			require.NoError(t, r.Ready(t.Context(), 2))
			time.Sleep(time.Millisecond) // virtual: it is on its way
			require.ErrorContains(t, r.Finish(t.Context()), "without gradients of 2 of 3 parameters")
			require.NoError(t, m.step(t.Context(), r, g.Rank(), backwards(3)))
			for i := range m.grads {
				require.Equal(t, []float32{float32(i) + 0.5, float32(i) + 0.5}, m.grads[i][:2])
			}
		}
	})
}

// TestLostStepEnds does not wait longer for such reductions than the context allows.
func TestLostStepEnds(t *testing.T) {
	pgtest.RunWith(t, 2, slow, func(t *testing.T, g *pg.Group) {
		m := newModel([]int{4}, []int{4})
		r, err := ddp.New(t.Context(), g, m.params, ddp.Options{FirstBucketBytes: 1, BucketBytes: 1})
		require.NoError(t, err)
		if g.Rank() == 0 {
			require.NoError(t, r.Ready(t.Context(), 1))
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			err := r.Finish(ctx)
			require.ErrorContains(t, err, "without gradients of 1 of 2 parameters")
			require.ErrorIs(t, err, context.DeadlineExceeded)
			return
		}
		time.Sleep(time.Minute)
	})
}

// TestLostStepStillUnderWay begins a step when the context of the lost one has ended before its reductions.
func TestLostStepStillUnderWay(t *testing.T) {
	pgtest.RunWith(t, 2, slow, func(t *testing.T, g *pg.Group) {
		m := newModel([]int{4}, []int{4}, []int{4})
		r, err := ddp.New(t.Context(), g, m.params, ddp.Options{FirstBucketBytes: 1, BucketBytes: 1})
		require.NoError(t, err)
		for range 3 {
			m.fill(2, 1000)
			require.NoError(t, r.Ready(t.Context(), 2))
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			require.ErrorContains(t, r.Finish(ctx), "without gradients of 2 of 3 parameters")
			cancel()
			require.NoError(t, m.step(t.Context(), r, g.Rank(), backwards(3)))
			for i := range m.grads {
				require.Equal(t, []float32{float32(i) + 0.5, float32(i) + 0.5}, m.grads[i][:2])
			}
		}
	})
}

// TestStepLostByOne has one rank lose a step that the others finish. The operation that it calls next is no part of theirs.
func TestStepLostByOne(t *testing.T) {
	pgtest.Run(t, 3, func(t *testing.T, g *pg.Group) {
		m := newModel([]int{4}, []int{4})
		r, err := ddp.New(t.Context(), g, m.params, ddp.Options{FirstBucketBytes: 1, BucketBytes: 1})
		require.NoError(t, err)
		require.NoError(t, m.step(t.Context(), r, g.Rank(), backwards(2)))
		if g.Rank() == 1 {
			m.fill(1, 1000)
			require.NoError(t, r.Ready(t.Context(), 1))
			require.ErrorContains(t, r.Finish(t.Context()), "without gradients of 1 of 2 parameters")
		}
		require.ErrorIs(t, m.step(t.Context(), r, g.Rank(), backwards(2)), colligo.ErrMismatch)
	})
}

// forgetful is memory whose first copy fails.
type forgetful struct{ failed bool }

func (f *forgetful) Alloc(_ colligo.Device, t colligo.DType, count int) (colligo.Tensor, error) {
	return colligo.Bytes(make([]byte, count*t.Size()), t), nil
}

func (f *forgetful) Copy(_ context.Context, dst, src colligo.Tensor) error {
	if !f.failed {
		f.failed = true
		return errors.New("no copy")
	}
	kernels.Copy(dst, src)
	return nil
}

// TestReadyAgain says once more that a gradient is there that could not be copied.
func TestReadyAgain(t *testing.T) {
	pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
		m := newModel([]int{4}, []int{4})
		r, err := ddp.New(t.Context(), g, m.params, ddp.Options{Memory: &forgetful{}})
		require.NoError(t, err)
		require.ErrorContains(t, r.Ready(t.Context(), 1), "gradient of w1: no copy")
		for range 2 {
			require.NoError(t, m.step(t.Context(), r, g.Rank(), backwards(2)))
			require.Equal(t, []float32{0.5, 1.5}, []float32{m.grads[0][0], m.grads[1][0]})
		}
	})
}

// full is memory that ends after some allocations.
type full struct {
	forgetful
	left int
}

func (f *full) Alloc(d colligo.Device, t colligo.DType, count int) (colligo.Tensor, error) {
	if f.left--; f.left < 0 {
		return colligo.Tensor{}, errors.New("no memory")
	}
	return f.forgetful.Alloc(d, t, count)
}

// TestRebuildWithoutRoom keeps the buckets that there are where there is no memory for better ones.
func TestRebuildWithoutRoom(t *testing.T) {
	for room := 2; room <= 3; room++ {
		pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
			m := newModel([]int{4}, []int{4})
			memory := &full{forgetful{failed: true}, room}
			r, err := ddp.New(t.Context(), g, m.params, ddp.Options{FirstBucketBytes: 1, BucketBytes: 1, Memory: memory})
			require.NoError(t, err)
			require.ErrorContains(t, m.step(t.Context(), r, g.Rank(), []int{0, 1}), "no memory")
			require.NoError(t, m.step(t.Context(), r, g.Rank(), []int{0, 1}))
			require.Equal(t, []float32{0.5, 1.5}, []float32{m.grads[0][0], m.grads[1][0]})
		})
	}
}

// TestValueOnOneRank refuses parameters of which some ranks have a value and others none.
func TestValueOnOneRank(t *testing.T) {
	pgtest.Run(t, 3, func(t *testing.T, g *pg.Group) {
		m := newModel([]int{4}, []int{4})
		if g.Rank() != 1 {
			m.params[1].Value = colligo.Of(make([]float32, 4))
		}
		_, err := ddp.New(t.Context(), g, m.params, ddp.Options{})
		require.ErrorContains(t, err, "on rank 1 type, shape or strides of w1 are not those of rank 0")
	})
}

// TestOptionsDiffer refuses options that would give the ranks other buckets, or a step other collectives.
func TestOptionsDiffer(t *testing.T) {
	for says, o := range map[string]ddp.Options{
		"rank 0 has 1048576 FirstBucketBytes, rank 2 has 1": {FirstBucketBytes: 1},
		"rank 0 has 26214400 BucketBytes, rank 2 has 1":     {BucketBytes: 1},
		"rank 0 has 0 BucketView, rank 2 has 1":             {BucketView: true},
		"rank 0 has 0 FindUnused, rank 2 has 1":             {FindUnused: true},
	} {
		pgtest.Run(t, 3, func(t *testing.T, g *pg.Group) {
			mine := ddp.Options{}
			if g.Rank() == 2 {
				mine = o
			}
			_, err := ddp.New(t.Context(), g, newModel([]int{4}, []int{4}).params, mine)
			require.ErrorContains(t, err, says)
			require.NoError(t, g.Barrier(t.Context()))
		})
	}
}

// TestWrongOrder plays a rank 0 whose order of gradients is none.
func TestWrongOrder(t *testing.T) {
	for _, order := range [][]int64{{1, 1}, {0, 2}, {-1, 0}} {
		pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
			m := newModel([]int{4}, []int{4})
			r, err := ddp.New(t.Context(), g, m.params, ddp.Options{})
			require.NoError(t, err)
			for i := range m.params {
				require.NoError(t, r.Ready(t.Context(), i))
			}
			if g.Rank() == 0 {
				require.NoError(t, g.Broadcast(t.Context(), colligo.Of(order), 0))
				return
			}
			require.ErrorIs(t, r.Finish(t.Context()), colligo.ErrCorrupt)
		})
	}
}

// TestHookWithoutFuture has a hook forget its result.
func TestHookWithoutFuture(t *testing.T) {
	pgtest.Run(t, 1, func(t *testing.T, g *pg.Group) {
		m := newModel([]int{4})
		none := func(context.Context, *pg.Group, *ddp.Bucket) (*ddp.Future, error) { return nil, nil }
		r, err := ddp.New(t.Context(), g, m.params, ddp.Options{Hook: none})
		require.NoError(t, err)
		require.ErrorContains(t, r.Ready(t.Context(), 0), "bucket 0: the hook returned no future")
		require.ErrorContains(t, r.Finish(t.Context()), "bucket 0: the hook returned no future")
	})
}

// TestCompressToUnknown refuses a type that gradients cannot be rounded to, in place of sending zeros.
func TestCompressToUnknown(t *testing.T) {
	for _, to := range []colligo.DType{colligo.Float8E5M2, colligo.Int16} {
		pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
			m := newModel([]int{4})
			r, err := ddp.New(t.Context(), g, m.params, ddp.Options{Hook: ddp.Compress(to, ddp.AllReduce)})
			require.NoError(t, err)
			require.ErrorContains(t, r.Ready(t.Context(), 0), to.String()+" is no type that this hook knows")
		})
	}
}

// TestPowerSGDFollows has gradients change their buckets after the first step: what an approximation missed goes to the
// gradient that it is of.
func TestPowerSGDFollows(t *testing.T) {
	const n, steps = 6, 20
	for _, batched := range []bool{false, true} {
		pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
			m := newModel([]int{n, n}, []int{n, n}, []int{})
			state, err := ddp.NewPowerSGD(ddp.PowerSGDOptions{ErrorFeedback: true, WarmStart: true, Batched: batched})
			require.NoError(t, err)
			r, err := ddp.New(t.Context(), g, m.params, ddp.Options{FirstBucketBytes: 1, BucketBytes: 1, Hook: state.Hook})
			require.NoError(t, err)
			want, sum := make([]float64, n*n), make([]float64, n*n)
			for i := range want {
				want[i] = float64((7*i)%5) / 5
			}
			for range steps {
				for i, v := range want {
					m.grads[0][i], m.grads[1][i] = float32(v), float32(1000*v) // far more, to be seen where it does not belong
				}
				for i := range m.params {
					require.NoError(t, r.Ready(t.Context(), i))
				}
				require.NoError(t, r.Finish(t.Context()))
				for i, v := range m.grads[0] {
					sum[i] += float64(v)
				}
			}
			for i, v := range want {
				require.InDelta(t, steps*v, sum[i], 20, "element %d", i)
			}
		})
	}
}
