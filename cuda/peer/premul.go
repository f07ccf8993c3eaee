package peer

import (
	"context"
	"fmt"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/pg"
)

// mostStage bounds the memory in which parts are multiplied before they are sent, in bytes. It is beside the symmetric heap, and
// taken when a premultiplied sum is first reduced or scattered.
const mostStage = 8 << 20

// stage is memory of this rank's device alone.
type stage struct {
	at    cuda.Pointer
	bytes int
}

// scatterScaled is scatterReduced for premultiplied sums: the input must not change, so it goes by the stage, in as many
// rounds as it needs. All ranks know all parts, and so run the same rounds.
func (b *backend) scatterScaled(ctx context.Context, t cuda.Thread, c *pg.Call, longest int, s cuda.Stream) error {
	a := &b.args.scatter
	if b.size == 1 {
		return b.multiply(ctx, t, c, addressOf(c.Out), cuda.Pointer(a.Offset[0]), longest, s)
	}
	if err := b.makeStage(ctx, t); err != nil {
		return err
	}
	from, bytes, parts := a.Offset, a.Bytes, 0
	for d := range b.size {
		if bytes[d] > 0 {
			parts++
		}
	}
	most := down(b.stage.bytes/parts, 512)
	sum := *c
	sum.Op = colligo.Sum
	for off := 0; off < longest; off += most {
		at := b.stage.at
		for d := range b.size {
			n := min(max(int(bytes[d])-off, 0), most)
			a.Offset[d], a.Bytes[d] = uint64(at), uint64(n)
			if n == 0 {
				continue
			}
			if err := b.multiply(ctx, t, c, at, cuda.Pointer(from[d])+cuda.Pointer(off), n, s); err != nil {
				return err
			}
			at += cuda.Pointer(most)
		}
		if n := int(a.Bytes[0]); n > 0 {
			sum.Out = colligo.OnDevice(c.Out.Device(), c.Out.Addr()+uintptr(off), n/c.DType.Size(), c.DType)
		}
		if err := first(b.scatterReduced(ctx, t, &sum, min(longest-off, most), s), b.weigh(t, s, 1+b.size)); err != nil {
			return err
		}
	}
	return nil
}

// makeStage takes the memory, on all ranks together: taking memory can wait for the device.
func (b *backend) makeStage(ctx context.Context, t cuda.Thread) error {
	if b.stage.at != 0 {
		return nil
	}
	bytes := min(mostStage, b.options.Memory/12)
	return b.together(ctx, func() error {
		return relaxed(t, func() error {
			at, err := t.Alloc(bytes)
			if err != nil {
				return fmt.Errorf("%d bytes to multiply in: %w", bytes, err)
			}
			b.stage = stage{at, bytes}
			return nil
		})
	})
}
