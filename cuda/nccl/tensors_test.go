package nccl_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda/nccl"
	"github.com/colligo-go/colligo/pg"
)

// TestPremultipliedByDevice multiplies by a factor in memory of the device, which is written on the stream before each reduction.
func TestPremultipliedByDevice(t *testing.T) {
	for size := 1; size <= 3; size++ {
		for _, d := range []colligo.DType{colligo.Float32, colligo.BFloat16, colligo.Complex64} {
			t.Run(fmt.Sprintf("ranks=%d/%v", size, d), func(t *testing.T) {
				onRanks(t, size, nccl.Options{}, func(r *rank) error { return r.premultiplied(d) })
			})
		}
	}
}

// premultiplied compares sums whose factor is a tensor. It is the last of the tensors that a call has.
func (r *rank) premultiplied(d colligo.DType) error {
	const n = 37
	size := r.Size()
	factor := func() colligo.Tensor { return r.numbered(d.Real(), 2).Slice(1, 2) }
	return errors.Join(
		r.same("all_reduce", []colligo.Tensor{r.numbered(d, n), factor()}, func(ctx context.Context, ts []colligo.Tensor) error {
			return r.AllReduce(ctx, ts[0], colligo.PremulSumBy(ts[1]))
		}),
		r.same("async all_reduce", []colligo.Tensor{r.numbered(d, n), factor()}, func(ctx context.Context, ts []colligo.Tensor) error {
			return r.AllReduceAsync(ctx, ts[0], colligo.PremulSumBy(ts[1])).Wait(ctx)
		}),
		r.same("reduce_scatter", []colligo.Tensor{r.numbered(d, n*size), r.numbered(d, n), factor()},
			func(ctx context.Context, ts []colligo.Tensor) error {
				return r.ReduceScatterTensor(ctx, ts[1], ts[0], colligo.PremulSumBy(ts[2]))
			}))
}

// TestDense gives tensors that are dense, and not contiguous. Others are refused.
func TestDense(t *testing.T) {
	for _, d := range []colligo.DType{colligo.Float32, colligo.BFloat16, colligo.Complex64} {
		t.Run(d.String(), func(t *testing.T) {
			onRanks(t, 3, nccl.Options{}, func(r *rank) error { return r.dense(d) })
		})
	}
}

func (r *rank) dense(d colligo.DType) error {
	const n = 24
	size, me := r.Size(), r.Rank()
	turned := func(x colligo.Tensor) colligo.Tensor {
		return x.Strided(0, []int{x.Len() / 2, 2}, []int{1, x.Len() / 2})
	}
	gaps := func(ctx context.Context, ts []colligo.Tensor) error {
		if ts[0].Device().Kind == colligo.CPU { // which takes them
			return nil
		}
		err := r.AllReduce(ctx, ts[0].Strided(0, []int{n / 2}, []int{2}), colligo.Sum)
		if err == nil || !strings.Contains(err.Error(), "is neither contiguous nor dense, as tensors on a device must be") {
			return fmt.Errorf("a tensor with gaps: %v", err)
		}
		return nil
	}
	return errors.Join(
		r.same("all_reduce", []colligo.Tensor{r.numbered(d, n)}, func(ctx context.Context, ts []colligo.Tensor) error {
			return r.AllReduce(ctx, turned(ts[0]), colligo.Sum)
		}),
		r.same("broadcast", []colligo.Tensor{r.numbered(d, n)}, func(ctx context.Context, ts []colligo.Tensor) error {
			return r.Broadcast(ctx, turned(ts[0]), size-1)
		}),
		r.same("all_gather", []colligo.Tensor{r.numbered(d, n*size), r.numbered(d, n)}, func(ctx context.Context, ts []colligo.Tensor) error {
			var outs []colligo.Tensor
			for _, x := range parts(ts[0], slices.Repeat([]int{n}, size)) {
				outs = append(outs, turned(x))
			}
			return r.AllGather(ctx, outs, turned(ts[1]))
		}),
		r.same("a ring", []colligo.Tensor{r.numbered(d, n), r.numbered(d, n)}, func(ctx context.Context, ts []colligo.Tensor) error {
			return r.Coalesce(ctx, func(b *pg.Batch) error {
				b.Send(turned(ts[0]), (me+1)%size, 0)
				b.Recv(turned(ts[1]), (me+size-1)%size, 0)
				return nil
			})
		}),
		r.same("gaps", []colligo.Tensor{r.numbered(d, n)}, gaps))
}
