package parity

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/ddp"
)

// hooked trains two ranks with a hook and expects the gradients of training without one, times factor.
func hooked(t *testing.T, o ddp.Options, factor float32, hook func(r *rank) ddp.Hook) {
	t.Helper()
	each(t, 2, func(r *rank) {
		o := o
		o.Hook = hook(r)
		m := r.train(o, layers...)
		for range 3 {
			m.zero()
			m.backward()
			for i := range m.params {
				for _, v := range values[float32](r, m.Grad(i)) {
					require.InDelta(r.t, factor*mean(i), v, 1e-5)
				}
			}
		}
	})
}

// power returns the hook of a new PowerSGD.
func (r *rank) power(o ddp.PowerSGDOptions) ddp.Hook {
	p, err := ddp.NewPowerSGD(o)
	require.NoError(r.t, err)
	return p.Hook
}

func TestBF16CompressWrapperIsView(t *testing.T) {
	wrapped(t, colligo.BFloat16, true)
}

func TestBuiltinDDPCommHooksNCCLGradIsView(t *testing.T) {
	for name, hook := range map[string]ddp.Hook{"allreduce": ddp.AllReduce, "fp16": ddp.FP16} {
		t.Run(name, func(t *testing.T) { hooked(t, ddp.Options{BucketView: true}, 1, func(*rank) ddp.Hook { return hook }) })
	}
}

// TestPowerSGDDDPCommHookNCCLGradIsView has gradients whose rows are all equal, which an approximation of rank 1 keeps.
func TestPowerSGDDDPCommHookNCCLGradIsView(t *testing.T) {
	for bits := range 16 {
		o := ddp.PowerSGDOptions{Rank: 1, ErrorFeedback: bits&1 != 0, WarmStart: bits&2 != 0, Batched: bits&4 != 0,
			SameShapeTogether: bits&8 != 0, MinCompressionRate: 1} // by the default rate gradients so small are not compressed
		t.Run(fmt.Sprintf("%+v", o), func(t *testing.T) {
			if !o.Batched {
				hooked(t, ddp.Options{BucketView: true}, 1, func(r *rank) ddp.Hook { return r.power(o) })
				return
			}
			batched(t, o)
		})
	}
}

// batched takes one gradient that makes a square of equal rows, for all of a bucket is one matrix.
func batched(t *testing.T, o ddp.PowerSGDOptions) {
	each(t, 2, func(r *rank) {
		m := r.train(ddp.Options{BucketView: true, Hook: r.power(o)}, []int{4, 4})
		for range 3 {
			m.zero()
			m.backward()
			for _, v := range values[float32](r, m.Grad(0)) {
				require.InDelta(r.t, mean(0), v, 1e-5)
			}
		}
	})
}

// TestDDPCommHookAllReduceWithThenHookNCCL chains two functions to an all-reduce: ten times, and half of it.
func TestDDPCommHookAllReduceWithThenHookNCCL(t *testing.T) {
	times := func(r *rank, f float32) func(context.Context, colligo.Tensor) (colligo.Tensor, error) {
		return func(_ context.Context, t colligo.Tensor) (colligo.Tensor, error) {
			all := values[float32](r, t)
			for i, v := range all {
				all[i] = f * v
			}
			r.set(t, all)
			return t, nil
		}
	}
	hooked(t, ddp.Options{}, 5, func(r *rank) ddp.Hook {
		return func(ctx context.Context, g *pg.Group, b *ddp.Bucket) (*ddp.Future, error) {
			f, err := ddp.AllReduce(ctx, g, b)
			if err != nil {
				return nil, err
			}
			return f.Then(times(r, 10)).Then(times(r, 0.5)), nil
		}
	})
}

// wrapped has a hook and PowerSGD, of which each gets buckets of a narrower type. By PowerSGD's default rate one of the two matrices
// is not compressed, so the hook is tried with both, too.
func wrapped(t *testing.T, to colligo.DType, view bool) {
	o := ddp.Options{BucketView: view}
	hooked(t, o, 1, func(*rank) ddp.Hook { return ddp.Compress(to, ddp.AllReduce) })
	for _, p := range []ddp.PowerSGDOptions{{}, {MinCompressionRate: 1}} {
		hooked(t, o, 1, func(r *rank) ddp.Hook { return ddp.Compress(to, r.power(p)) })
	}
}

// TestFP16CompressWrapper follows a body of the suite that no test calls there.
func TestFP16CompressWrapper(t *testing.T) {
	views(t, func(t *testing.T, view bool) { wrapped(t, colligo.Float16, view) })
}

// TestDDPCommHookAllReduceHookNCCL follows another: a hook that divides and calls all_reduce, also with a static graph.
func TestDDPCommHookAllReduceHookNCCL(t *testing.T) {
	for _, o := range []ddp.Options{{}, {BucketView: true}, {StaticGraph: true}, {StaticGraph: true, BucketView: true}} {
		t.Run(fmt.Sprintf("static=%v/view=%v", o.StaticGraph, o.BucketView), func(t *testing.T) {
			hooked(t, o, 1, func(*rank) ddp.Hook {
				return func(ctx context.Context, g *pg.Group, b *ddp.Bucket) (*ddp.Future, error) {
					half := colligo.PremulSum(1 / float64(g.Size()))
					return ddp.After(g.AllReduceAsync(ctx, b.Buffer, half), b.Buffer), nil
				}
			})
		})
	}
}

// TestDefaultDDPCommHooksNCCL follows another.
func TestDefaultDDPCommHooksNCCL(t *testing.T) {
	for name, hook := range map[string]ddp.Hook{"allreduce": ddp.AllReduce, "fp16": ddp.FP16, "bf16": ddp.BF16} {
		t.Run(name, func(t *testing.T) {
			views(t, func(t *testing.T, view bool) {
				hooked(t, ddp.Options{BucketView: view}, 1, func(*rank) ddp.Hook { return hook })
			})
		})
	}
}

// TestFP16 follows another: gradients of float16 that are so great that two of them overflow.
func TestFP16(t *testing.T) {
	views(t, func(t *testing.T, view bool) {
		each(t, 2, func(r *rank) {
			great := colligo.Float16FromFloat32(1 << 15)
			g := colligo.FromBits([]uint16{great}, colligo.Float16)
			if r.gpu != nil {
				g = r.onDevice(g)
			}
			m, err := ddp.New(r.ctx, r.Group, []ddp.Parameter{{Name: "weight", Grad: g}}, ddp.Options{BucketView: view, Memory: r.memory()})
			require.NoError(r.t, err)
			if view && r.gpu == nil {
				copy(m.Grad(0).CPUBytes(), g.CPUBytes())
			} else if view {
				r.upload(m.Grad(0), []byte{byte(great & 0xff), byte(great >> 8)})
			}
			require.NoError(r.t, m.Ready(r.ctx, 0))
			require.NoError(r.t, m.Finish(r.ctx))
			require.Equal(r.t, []uint16{great}, values[uint16](r, m.Grad(0)))
		})
	})
}
