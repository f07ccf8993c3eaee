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

// AllReduce is the hook of reducers that have no other: the mean of all ranks. Gradients are weighted before they are added,
// so that float16 does not overflow. c10d: allreduce_hook.
func AllReduce(ctx context.Context, g *pg.Group, b *Bucket) (*Future, error) {
	return After(g.AllReduceAsync(ctx, b.Buffer, b.Mean(g)), b.Buffer), nil
}

// FP16 averages gradients that are rounded to float16 on their way. c10d: fp16_compress_hook.
func FP16(ctx context.Context, g *pg.Group, b *Bucket) (*Future, error) {
	return Compress(colligo.Float16, AllReduce)(ctx, g, b)
}

// BF16 averages gradients that are rounded to bfloat16 on their way. c10d: bf16_compress_hook.
func BF16(ctx context.Context, g *pg.Group, b *Bucket) (*Future, error) {
	return Compress(colligo.BFloat16, AllReduce)(ctx, g, b)
}

// Compress returns a hook that gives another hook a bucket of a narrower float type of at least 16 bits, and widens its
// result. Buckets that are that narrow pass as they are. The CPU rounds. Gradients on a device need a Transferer, and the
// hook waits there until they are computed. The narrow bucket is on the device, too. c10d: fp16_compress_wrapper,
// bf16_compress_wrapper.
func Compress(to colligo.DType, hook Hook) Hook {
	return func(ctx context.Context, g *pg.Group, b *Bucket) (*Future, error) {
		if err := errors.Join(known(to), known(b.Buffer.DType())); err != nil {
			return nil, fmt.Errorf("compression to %v: %w", to, err)
		}
		if b.Buffer.DType().Size() <= to.Size() {
			return hook(ctx, g, b)
		}
		narrow, err := b.narrowed(to)
		if err == nil {
			err = b.convert(ctx, narrow.Buffer, b.Buffer)
		}
		if err != nil {
			return nil, fmt.Errorf("compression to %v: %w", to, err)
		}
		f, err := hook(ctx, g, narrow)
		if err != nil {
			return nil, err
		}
		return f.Then(func(ctx context.Context, t colligo.Tensor) (colligo.Tensor, error) {
			return b.Buffer, b.convert(ctx, b.Buffer, t)
		}), nil
	}
}
