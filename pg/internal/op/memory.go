package op

import (
	"fmt"
	"unsafe"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/kernels"
	"github.com/colligo-go/colligo/plan"
)

// Room is memory in which the operations of a group are packed, one after the other.
type Room struct{ b []byte }

// take returns n bytes: the room's own, or if n is large some that are allocated.
func (r *Room) take(n int) []byte {
	if r == nil || n > 2*mergeLimit {
		return make([]byte, n)
	}
	if len(r.b) < n {
		r.b = make([]byte, 2*mergeLimit)
	}
	return r.b[:n:n]
}

// inPlace returns the memory of each side that needs no staging, nil for a side that does.
func (o *Op) inPlace() (in, out []byte) {
	r := o.Rare()
	if in = r.in; in == nil && o.In.Valid() && o.In.Contiguous() {
		in = o.In.CPUBytes()
	}
	if r.stageIn {
		in = nil
	}
	switch out = r.out; {
	case out != nil:
	case o.Coll == plan.AllReduce: // whose input and output are one tensor
		out = in
	case o.Out.Valid() && o.Out.Contiguous():
		out = o.Out.CPUBytes()
	}
	return in, out
}

// staged returns the tensors of each side that are copied, nil for a side that is not.
func (o *Op) staged() (ins, outs []colligo.Tensor) {
	r := o.Rare()
	switch {
	case o.In.Valid() && (r.stageIn || !o.In.Contiguous()):
		ins = []colligo.Tensor{o.In}
	case !o.In.Valid() && (r.stageIn || r.in == nil):
		ins = r.Ins
	}
	switch {
	case o.Out.Valid() && !o.Out.Contiguous():
		outs = []colligo.Tensor{o.Out}
	case !o.Out.Valid() && r.out == nil:
		outs = r.Outs
	}
	return ins, outs
}

// Pack returns the memory on which the plan works. Inputs that are not contiguous are copied. The memory may be that of the room.
func (o *Op) Pack(room *Room) (in, out []byte) {
	if o.Rare().Parts != nil {
		return o.packParts(room)
	}
	if in, out = o.inPlace(); !o.unusual && (in != nil || !o.In.Valid()) && (out != nil || !o.Out.Valid()) {
		return in, out
	}
	ins, outs := o.staged()
	if ins != nil {
		in = gatherTensors(ins)
	}
	if outs != nil && o.Coll == plan.AllReduce {
		out = in
	} else if outs != nil {
		out = make([]byte, sizeOf(outs))
	}
	return in, out
}

// Kernel returns the kernel that reduces the elements, nil for collectives that do not reduce.
func (o *Op) Kernel() *kernels.Kernel {
	if !o.Coll.Reduces() {
		return nil
	}
	k, _ := kernels.Lookup(o.DType, o.Reduce) // which was looked up when the arguments were checked
	return k
}

// Weight returns the factor by which this rank's input is scaled before it is reduced, 1 for none. Premultiplied sums have one, and
// averages that of kernels.Kernel.Weight.
func (o *Op) Weight() (float64, error) { return o.WeightBy(o.Kernel()) }

// WeightBy returns the same as Weight, for a caller that has looked the kernel up.
func (o *Op) WeightBy(k *kernels.Kernel) (float64, error) {
	switch {
	case k == nil:
		return 1, nil
	case o.Reduce == colligo.KindPremulSum:
		return o.factor()
	}
	return k.Weight(int(o.Size)), nil
}

// Scaled returns what Pack returned as in, scaled: in place if that is also out, else in the room.
func (o *Op) Scaled(room *Room, in, out []byte, factor float64) []byte {
	dst := in
	if len(in) != len(out) || unsafe.SliceData(in) != unsafe.SliceData(out) {
		dst = room.take(len(in))
	}
	o.Kernel().Scale(dst, in, factor)
	return dst
}

// Unpack brings the results that lie in out, which Pack has returned, to their tensors.
func (o *Op) Unpack(out []byte) {
	switch {
	case o.Rare().Parts != nil:
		o.unpackParts(out)
	case o.unusual || o.Out.Valid() && !o.Out.Contiguous():
		_, outs := o.staged()
		scatterTensors(outs, out)
	}
}

// Message returns the memory of a send or receive. That of a tensor that is not contiguous is a copy, which stays the same.
func (o *Op) Message() []byte {
	t, side := &o.In, 0
	if o.Coll == plan.Recv {
		t, side = &o.Out, 1
	}
	if t.Contiguous() {
		return t.CPUBytes()
	}
	r := o.More()
	if r.staged[side] == nil && side == 0 {
		r.staged[side] = gatherTensors([]colligo.Tensor{*t})
	} else if r.staged[side] == nil {
		r.staged[side] = make([]byte, t.Size())
	}
	return r.staged[side]
}

// Received brings a message that has arrived in Message to its tensor.
func (o *Op) Received() {
	if !o.Out.Contiguous() {
		scatterTensors([]colligo.Tensor{o.Out}, o.Message())
	}
}

// TakeOwn brings the message of a receive from this rank itself to its tensor.
func (o *Op) TakeOwn() {
	from := o.rare.OtherEnd
	copy(o.Message(), from.Message())
	o.Received()
	from.rare.Taken = true
}

// Alone carries the operation out in a group of one rank: the input is the output.
func (o *Op) Alone() error {
	switch {
	case o.P2P() && o.Rare().OtherEnd == nil:
		return fmt.Errorf("a group of one rank has no peer to %v", o.Coll)
	case o.Coll == plan.Recv:
		o.TakeOwn()
		return nil
	case o.Coll == plan.Send:
		return nil
	}
	factor, err := o.Weight()
	if err != nil {
		return err
	}
	if factor == 1 && !o.unusual && o.In == o.Out {
		return nil // the result lies there already
	}
	in, out := o.Pack(nil)
	if factor != 1 {
		o.Kernel().Scale(out, in, factor)
	} else {
		copy(out, in)
	}
	o.Unpack(out)
	return nil
}

func (o *Op) factor() (float64, error) {
	f, by := o.Rare().Factor.Factor()
	if by == nil {
		return f, nil
	}
	return kernels.Scalar(*by)
}

// joined returns the memory of tensors that follow one another without gaps, nil where they do not. They can be allocations
// of their own that happen to be neighbours, and the caller keeps all of them alive. The slice is not made by unsafe.Slice.
// That function ends programs built with the race detector when it finds more than one allocation.
func joined(ts []colligo.Tensor) []byte {
	if ts[0].Device().Kind != colligo.CPU {
		return nil
	}
	n := 0
	for _, t := range ts {
		if !t.Contiguous() || t.Size() > 0 && t.Addr() != ts[0].Addr()+uintptr(n) {
			return nil
		}
		n += t.Size()
	}
	var b []byte
	*(*header)(unsafe.Pointer(&b)) = header{ts[0].Pointer(), n, n}
	if b == nil {
		b = []byte{} // of empty tensors without memory
	}
	return b
}

// header is the memory of a slice.
type header struct {
	data     unsafe.Pointer
	len, cap int
}

func sizeOf(ts []colligo.Tensor) int {
	n := 0
	for _, t := range ts {
		n += t.Size()
	}
	return n
}

// scatterTensors copies memory that holds tensors one after the other to them.
func scatterTensors(ts []colligo.Tensor, from []byte) {
	for _, t := range ts {
		n := t.Size()
		kernels.Copy(t, colligo.Bytes(from[:n:n], t.DType(), t.Shape()...))
		from = from[n:]
	}
}

// Gathered returns the elements of a tensor in memory without gaps: its own, or a copy.
func Gathered(t colligo.Tensor) []byte {
	if t.Contiguous() {
		return t.CPUBytes()
	}
	return gatherTensors([]colligo.Tensor{t})
}

func gatherTensors(ts []colligo.Tensor) []byte {
	all := make([]byte, sizeOf(ts))
	rest := all
	for _, t := range ts {
		n := t.Size()
		kernels.Copy(colligo.Bytes(rest[:n:n], t.DType(), t.Shape()...), t)
		rest = rest[n:]
	}
	return all
}
