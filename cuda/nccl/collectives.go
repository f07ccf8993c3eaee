package nccl

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
)

// Reduction is an element type and a reduction as the library takes them. Release ends one that Comm.PremulSum has made.
type Reduction struct {
	DType DType
	Op    Op
	per   int // how many elements of the library one element is
	comm  *Comm
}

// Reduction returns the reduction of a kind, other than the premultiplied sum.
func (c *Comm) Reduction(d colligo.DType, k colligo.OpKind) (Reduction, error) {
	dt, per, op, err := c.library.Reduced(d, k)
	return Reduction{DType: dt, Op: op, per: per}, err
}

// Where the factor of a premultiplied sum lies.
const (
	factorOnDevice = iota
	factorOnHost
)

// PremulSum makes a sum whose inputs are multiplied by a factor of the element type, given by its bytes. Release ends it.
func (c *Comm) PremulSum(d colligo.DType, factor []byte) (Reduction, error) {
	return c.premulSum(d, unsafe.Pointer(&factor[0]), factorOnHost)
}

// PremulSumOn makes a sum whose inputs are multiplied by a factor in memory of the device. The factor is read when the
// reduction runs. Release ends it.
func (c *Comm) PremulSumOn(d colligo.DType, factor cuda.Pointer) (Reduction, error) {
	at := uintptr(factor)
	return c.premulSum(d, *(*unsafe.Pointer)(unsafe.Pointer(&at)), factorOnDevice)
}

func (c *Comm) premulSum(d colligo.DType, factor unsafe.Pointer, residence int) (Reduction, error) {
	l := c.library
	dt, per, err := l.premultiplied(d)
	if err != nil {
		return Reduction{}, err
	}
	r := Reduction{DType: dt, per: per, comm: c}
	return r.made(l.check("ncclRedOpCreatePreMulSum", l.table.RedOpCreatePreMulSum(&r.Op, factor, dt, residence, c.handle), c.handle))
}

// premultiplied returns the element type as which the library takes a premultiplied sum, and how many elements of it one element is.
func (l *Library) premultiplied(d colligo.DType) (as DType, per int, err error) {
	if err := l.has("ncclRedOpCreatePreMulSum", l.table.RedOpCreatePreMulSum != nil); err != nil {
		return 0, 0, fmt.Errorf("PreMulSum requires NCCL>=2.11.1: %w", err)
	}
	as, per, _, err = l.Reduced(d, colligo.KindSum)
	return as, per, err
}

// made returns the reduction beside an error of making it.
func (r Reduction) made(err error) (Reduction, error) { return r, err }

// Release gives back a reduction of PremulSum; it may be pending.
func (r Reduction) Release() error {
	if r.comm == nil {
		return nil
	}
	l := r.comm.library
	return l.check("ncclRedOpDestroy", l.table.RedOpDestroy(r.Op, r.comm.handle), r.comm.handle)
}

// AllReduce enqueues ncclAllReduce of count elements.
func (c *Comm) AllReduce(in, out cuda.Pointer, count int, r Reduction, s cuda.Stream) error {
	return c.enqueued("ncclAllReduce", c.library.table.AllReduce(in, out, count*r.per, r.DType, r.Op, c.handle, s))
}

// Reduce enqueues ncclReduce of count elements.
func (c *Comm) Reduce(in, out cuda.Pointer, count int, r Reduction, root int, s cuda.Stream) error {
	return c.enqueued("ncclReduce", c.library.table.Reduce(in, out, count*r.per, r.DType, r.Op, root, c.handle, s))
}

// ReduceScatter enqueues ncclReduceScatter with count elements of output.
func (c *Comm) ReduceScatter(in, out cuda.Pointer, count int, r Reduction, s cuda.Stream) error {
	return c.enqueued("ncclReduceScatter", c.library.table.ReduceScatter(in, out, count*r.per, r.DType, r.Op, c.handle, s))
}

// AllGather enqueues ncclAllGather with count elements of input.
func (c *Comm) AllGather(in, out cuda.Pointer, count int, d colligo.DType, s cuda.Stream) error {
	dt, per := c.library.Moved(d)
	return c.enqueued("ncclAllGather", c.library.table.AllGather(in, out, count*per, dt, c.handle, s))
}

// Broadcast enqueues ncclBroadcast of count elements. Where in and out are the same memory it is ncclBcast.
func (c *Comm) Broadcast(in, out cuda.Pointer, count int, d colligo.DType, root int, s cuda.Stream) error {
	dt, per := c.library.Moved(d)
	if in == out {
		return c.enqueued("ncclBcast", c.library.table.Bcast(out, count*per, dt, root, c.handle, s))
	}
	return c.enqueued("ncclBroadcast", c.library.table.Broadcast(in, out, count*per, dt, root, c.handle, s))
}

// Send enqueues ncclSend of count elements. Since 2.7.
func (c *Comm) Send(in cuda.Pointer, count int, d colligo.DType, to int, s cuda.Stream) error {
	if l := c.library; l.table.Send == nil || l.version < messagesSince {
		return l.has("ncclSend", false)
	}
	dt, per := c.library.Moved(d)
	return c.enqueued("ncclSend", c.library.table.Send(in, count*per, dt, to, c.handle, s))
}

// Recv enqueues ncclRecv of count elements. Since 2.7.
func (c *Comm) Recv(out cuda.Pointer, count int, d colligo.DType, from int, s cuda.Stream) error {
	if l := c.library; l.table.Recv == nil || l.version < messagesSince {
		return l.has("ncclRecv", false)
	}
	dt, per := c.library.Moved(d)
	return c.enqueued("ncclRecv", c.library.table.Recv(out, count*per, dt, from, c.handle, s))
}

// Group calls f between GroupStart and GroupEnd. An error of f ends the group all the same.
func (c *Comm) Group(f func() error) error {
	if err := c.GroupStart(); err != nil {
		return err
	}
	err := f()
	return errors.Join(err, c.GroupEnd())
}

// Part is what one rank gets or gives: count elements at an address. With a negative count there is no such message; an empty one
// is sent.
type Part struct {
	At    cuda.Pointer
	Count int
}

// noPart is a message that is not there.
var noPart = Part{Count: -1}

// emptySince is the version from which an empty message is sent. PyTorch's ranks leave it out with older libraries.
const emptySince = 21400

// Exchange enqueues a group of sends and receives: to each rank its part of ins, and from each rank its part of outs.
// All_to_all, gather and scatter of any counts are exchanges.
func (c *Comm) Exchange(outs, ins []Part, d colligo.DType, s cuda.Stream) error {
	if len(outs) > c.size || len(ins) > c.size {
		return fmt.Errorf("nccl: an exchange of %d and %d parts among %d ranks", len(outs), len(ins), c.size)
	}
	goes := func(all []Part, q int) bool {
		return q < len(all) && (all[q].Count > 0 || all[q].Count == 0 && c.library.version >= emptySince)
	}
	return c.Group(func() error {
		for q := range c.size {
			if goes(ins, q) {
				if err := c.Send(ins[q].At, ins[q].Count, d, q, s); err != nil {
					return err
				}
			}
			if goes(outs, q) {
				if err := c.Recv(outs[q].At, outs[q].Count, d, q, s); err != nil {
					return err
				}
			}
		}
		return nil
	})
}
