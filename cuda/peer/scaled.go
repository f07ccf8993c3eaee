package peer

import (
	"fmt"
	"unsafe"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/internal/streamorder"
	"github.com/colligo-go/colligo/kernels"
	"github.com/colligo-go/colligo/kernels/ptx"
	seam "github.com/colligo-go/colligo/pg/backend"
)

// mostScratch bounds the memory in which parts are multiplied before they are sent, in bytes. It is beside the heap, and
// taken when a premultiplied sum is first reduced or scattered.
const mostScratch = 8 << 20

// scratch is memory of this rank's device alone.
type scratch struct {
	at    cuda.Pointer
	bytes int
	call  seam.Call // of a round
}

// multiply enqueues out = in · factor of a premultiplied sum.
func (x *launcher) multiply(o *operation, out, in cuda.Pointer, bytes int) error {
	factor, by := o.Op.Factor()
	factorAt := uint64(0)
	if by != nil && by.Device().Kind != colligo.CPU {
		factorAt = uint64(by.Addr())
	} else if by != nil {
		var err error
		if factor, err = kernels.Scalar(*by); err != nil {
			return err
		}
	}
	if x.code.scale[o.DType] == 0 {
		if err := x.together(o.ctx, func() error { return x.code.loadScale(o.t, o.DType) }); err != nil {
			return err
		}
	}
	x.args.unary = ptx.UnaryArgs{Out: uint64(out), In: uint64(in), Count: uint64(bytes / o.DType.Real().Size()), Factor: factor, FactorAt: factorAt}
	return o.t.Launch(x.code.scale[o.DType], moveGrid(bytes), unsafe.Pointer(&x.args.unary), o.s)
}

// scaled carries out a reduce-scatter or a reduce of premultiplied sums. The input must not change, so it goes by the scratch
// memory, in as many rounds as it needs. All ranks know all parts, and so run the same rounds.
func (x *launcher) scaled(o *operation) error {
	x.layParts(o)
	a, longest := &x.args.scatter, o.bytes
	if x.size == 1 {
		return x.multiply(o, o.out, cuda.Pointer(a.Offset[0]), longest)
	}
	if err := x.makeScratch(o); err != nil {
		return err
	}
	from, bytes, parts := a.Offset, a.Bytes, 0
	for d := range x.size {
		if bytes[d] > 0 {
			parts++
		}
	}
	most := down(x.scratch.bytes/parts, 512)
	whole, sum := o.Call, &x.scratch.call
	*sum = *whole
	sum.Op = colligo.Sum
	for off := 0; off < longest; off += most {
		at := x.scratch.at
		o.Call = whole
		for d := range x.size {
			n := min(max(int(bytes[d])-off, 0), most)
			a.Offset[d], a.Bytes[d] = uint64(at), uint64(n)
			if n == 0 {
				continue
			}
			if err := x.multiply(o, at, cuda.Pointer(from[d])+cuda.Pointer(off), n); err != nil {
				return err
			}
			at += cuda.Pointer(most)
		}
		if n := int(a.Bytes[0]); n > 0 {
			sum.Out = colligo.OnDevice(whole.Out.Device(), whole.Out.Addr()+uintptr(off), n/whole.DType.Size(), whole.DType)
		}
		o.Call, o.bytes = sum, min(longest-off, most)
		if err := x.run(o); err != nil {
			return err
		}
		if err := x.order.Throttle(o.t, o.s, 1+x.size); err != nil {
			return err
		}
	}
	return nil
}

// makeScratch takes the memory, on all ranks together: taking memory can wait for the device.
func (x *launcher) makeScratch(o *operation) error {
	if x.scratch.at != 0 {
		return nil
	}
	bytes := min(mostScratch, x.memory/12)
	return x.together(o.ctx, func() error {
		return streamorder.Relaxed(o.t, func() error {
			at, err := o.t.Alloc(bytes)
			if err != nil {
				return fmt.Errorf("%d bytes to multiply in: %w", bytes, err)
			}
			x.scratch.at, x.scratch.bytes = at, bytes
			return nil
		})
	})
}
