package ddp

import (
	"context"
	"errors"
	"fmt"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
)

// Hook reduces a bucket. It starts the work and returns a future. The future's value becomes the gradients; it has the
// length and type of the bucket's buffer. A hook may call collectives of the group, the same on all ranks. c10d: a
// communication hook.
type Hook func(ctx context.Context, g *pg.Group, b *Bucket) (*Future, error)

// AllReduce is the hook of reducers that have no other: the mean of all ranks. Gradients are divided before they are added,
// so that float16 does not overflow. c10d: allreduce_hook.
func AllReduce(ctx context.Context, g *pg.Group, b *Bucket) (*Future, error) {
	return After(g.AllReduceAsync(ctx, b.Buffer, mean(g)), b.Buffer), nil
}

func mean(g *pg.Group) colligo.ReduceOp { return colligo.PremulSum(1 / float64(g.Size())) }

// FP16 averages gradients that are rounded to float16 on their way. c10d: fp16_compress_hook.
func FP16(ctx context.Context, g *pg.Group, b *Bucket) (*Future, error) {
	return Compress(colligo.Float16, AllReduce)(ctx, g, b)
}

// BF16 averages gradients that are rounded to bfloat16 on their way. c10d: bf16_compress_hook.
func BF16(ctx context.Context, g *pg.Group, b *Bucket) (*Future, error) {
	return Compress(colligo.BFloat16, AllReduce)(ctx, g, b)
}

// Compress returns a hook that gives another hook a bucket of a narrower float type of at least 16 bits, and widens its
// result. Buckets that are that narrow pass as they are. On the CPU only. c10d: fp16_compress_wrapper,
// bf16_compress_wrapper.
func Compress(to colligo.DType, hook Hook) Hook {
	return func(ctx context.Context, g *pg.Group, b *Bucket) (*Future, error) {
		if err := errors.Join(known(to), onHost(b.Buffer)); err != nil {
			return nil, fmt.Errorf("compression to %v: %w", to, err)
		}
		if b.Buffer.DType().Size() <= to.Size() {
			return hook(ctx, g, b)
		}
		narrow := &Bucket{Index: b.Index, Last: b.Last, Params: b.Params, Buffer: empty(to, b.Buffer.Len())}
		from := 0
		for _, grad := range b.Grads {
			part := narrow.Buffer.Slice(from, from+grad.Len())
			narrow.Grads = append(narrow.Grads, part.Strided(0, grad.Shape(), grad.Strides()))
			from += grad.Len()
		}
		write(narrow.Buffer, read(b.Buffer))
		f, err := hook(ctx, g, narrow)
		if err != nil {
			return nil, err
		}
		return f.Then(func(_ context.Context, t colligo.Tensor) (colligo.Tensor, error) {
			write(b.Buffer, read(t))
			return b.Buffer, nil
		}), nil
	}
}
