package parity

import (
	"context"
	"fmt"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/ddp"
)

// hooked trains two ranks with a hook that computes, so on CPU ranks, and expects the gradients of training without one,
// times factor.
func hooked(t *testing.T, view bool, factor float32, hook func(r *rank) ddp.Hook) {
	t.Helper()
	eachWith(t, 2, options{cpuOnly: true}, func(r *rank) {
		m := r.train(ddp.Options{BucketView: view, Hook: hook(r)}, layers...)
		for range 3 {
			m.zero()
			m.backward()
			for i := range m.params {
				for _, v := range values[float32](r, m.Grad(i)) {
					require.InDelta(r.t, factor*mean(i), v, 2e-2)
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
	hooked(t, true, 1, func(*rank) ddp.Hook { return ddp.Compress(colligo.BFloat16, ddp.AllReduce) })
	hooked(t, true, 1, func(r *rank) ddp.Hook { return ddp.Compress(colligo.BFloat16, r.power(ddp.PowerSGDOptions{})) })
}

func TestBuiltinDDPCommHooksNCCLGradIsView(t *testing.T) {
	for name, hook := range map[string]ddp.Hook{"allreduce": ddp.AllReduce, "fp16": ddp.FP16, "bf16": ddp.BF16} {
		t.Run(name, func(t *testing.T) { hooked(t, true, 1, func(*rank) ddp.Hook { return hook }) })
	}
}

// TestPowerSGDDDPCommHookNCCLGradIsView has gradients whose rows are all equal, which an approximation of rank 1 keeps.
func TestPowerSGDDDPCommHookNCCLGradIsView(t *testing.T) {
	for _, bits := range []int{0, 1, 2, 3, 4, 5, 6, 7} {
		o := ddp.PowerSGDOptions{Rank: 1, ErrorFeedback: bits&1 != 0, WarmStart: bits&2 != 0, Batched: bits&4 != 0}
		t.Run(fmt.Sprintf("%+v", o), func(t *testing.T) {
			if !o.Batched {
				hooked(t, true, 1, func(r *rank) ddp.Hook { return r.power(o) })
				return
			}
			batched(t, o)
		})
	}
}

// batched takes one gradient that makes a square of equal rows, for all of a bucket is one matrix.
func batched(t *testing.T, o ddp.PowerSGDOptions) {
	eachWith(t, 2, options{cpuOnly: true}, func(r *rank) {
		m := r.train(ddp.Options{BucketView: true, Hook: r.power(o)}, []int{4, 4})
		for range 3 {
			m.zero()
			m.backward()
			for _, v := range values[float32](r, m.Grad(0)) {
				require.InDelta(r.t, mean(0), v, 1e-3)
			}
		}
	})
}

// TestDDPCommHookAllReduceWithThenHookNCCL chains two functions to an all-reduce: ten times, and half of it.
func TestDDPCommHookAllReduceWithThenHookNCCL(t *testing.T) {
	times := func(f float32) func(context.Context, colligo.Tensor) (colligo.Tensor, error) {
		return func(_ context.Context, t colligo.Tensor) (colligo.Tensor, error) {
			for i, v := range memoryOf(t) {
				memoryOf(t)[i] = f * v
			}
			return t, nil
		}
	}
	hooked(t, false, 5, func(*rank) ddp.Hook {
		return func(ctx context.Context, g *pg.Group, b *ddp.Bucket) (*ddp.Future, error) {
			f, err := ddp.AllReduce(ctx, g, b)
			if err != nil {
				return nil, err
			}
			return f.Then(times(10)).Then(times(0.5)), nil
		}
	})
}

// memoryOf returns the elements of a float32 tensor on the CPU.
func memoryOf(t colligo.Tensor) []float32 { return unsafe.Slice((*float32)(t.Pointer()), t.Len()) }
