package op

import (
	"fmt"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/plan"
)

// Failf notes the first thing that is wrong with the arguments.
func (o *Op) Failf(format string, args ...any) {
	if o.valid() {
		o.More().Wrong = fmt.Errorf(format, args...)
	}
}

// Fail makes err the error of the call, unless it has one.
func (o *Op) Fail(err error) {
	if o.valid() {
		o.More().Wrong = err
	}
}

// PairSelf brings together the sends and receives of a block by which a rank sends to itself. On the CPU they are matched by
// their tags, on a device in their order.
func PairSelf(ops []*Op) {
	for _, to := range ops {
		if to.Coll != plan.Recv || !to.Rare().ToSelf {
			continue
		}
		for _, from := range ops {
			if from.Coll != plan.Send || !from.Rare().ToSelf || from.rare.OtherEnd != nil || from.OnCPU() && from.Tag != to.Tag {
				continue
			}
			from.rare.OtherEnd, to.rare.OtherEnd = to, from
			if from.DType != to.DType || from.Count != to.Count || from.Tag != to.Tag {
				to.Failf("this rank sends itself %d %v elements with tag %d, and receives %d %v elements with tag %d", from.Count,
					from.DType, from.Tag, to.Count, to.DType, to.Tag)
			}
			break
		}
	}
}

// rooted sets the root.
func (o *Op) rooted(root int) {
	if root < 0 || root >= int(o.Size) {
		o.Failf("root %d of a group of %d ranks", root, o.Size)
	}
	o.Root = int32(root)
}

// read makes t the input.
func (o *Op) read(t *colligo.Tensor) {
	o.check(t)
	if o.valid() {
		o.In = *o.flat(t)
	}
}

// write makes t the output.
func (o *Op) write(t *colligo.Tensor) {
	o.check(t)
	if o.valid() {
		o.Out = *o.flat(t)
	}
}

// readList takes one input for each rank. The memory of a list whose tensors follow one another is not copied.
func (o *Op) readList(ts []colligo.Tensor) {
	if o.list(ts) {
		r := o.More()
		r.Ins, r.in = o.flatList(ts), joined(ts)
	}
}

// writeList takes one output for each rank.
func (o *Op) writeList(ts []colligo.Tensor) {
	if o.list(ts) {
		r := o.More()
		r.Outs, r.out = o.flatList(ts), joined(ts)
	}
}

func (o *Op) list(ts []colligo.Tensor) bool {
	if len(ts) != int(o.Size) {
		o.Failf("%d tensors for %d ranks", len(ts), o.Size)
	}
	for i := range ts {
		o.check(&ts[i])
	}
	return o.valid()
}

// lengths returns the elements of each tensor of a list: one number if all have as many.
func lengths(ts []colligo.Tensor) (each int, counts []int) {
	even := true
	for _, t := range ts {
		even = even && t.Len() == ts[0].Len()
	}
	if even && len(ts) > 0 {
		return ts[0].Len(), nil
	}
	return 0, allLengths(ts)
}

func allLengths(ts []colligo.Tensor) []int {
	n := make([]int, len(ts))
	for i, t := range ts {
		n[i] = t.Len()
	}
	return n
}

// End returns the address behind a contiguous tensor.
func End(t colligo.Tensor) uintptr { return t.Addr() + uintptr(t.Size()) }

// Overlap reports whether two contiguous tensors share memory. Strided ones are not looked at: they may lie between one
// another, as the columns of a matrix do.
func Overlap(a, b colligo.Tensor) bool {
	return a.Len() > 0 && b.Len() > 0 && a.Contiguous() && b.Contiguous() && a.Device() == b.Device() &&
		a.Addr() < End(b) && b.Addr() < End(a)
}

// clash reports whether the memory that is read and the memory that is written in place overlap. A side that is staged does
// not count: its inputs are copied first, or its outputs last.
func (o *Op) clash() bool {
	if !o.valid() || !o.OnCPU() {
		return false
	}
	in, out := o.inPlace()
	return len(in) > 0 && len(out) > 0 && Overlap(colligo.Of(in), colligo.Of(out))
}

// separate refuses an output that shares memory with the input. If allowed, one may be this rank's part of the other.
func (o *Op) separate(out, in colligo.Tensor, allowed bool) {
	if !o.valid() || !Overlap(out, in) {
		return
	}
	whole, part := out, in
	if in.Len() > out.Len() {
		whole, part = in, out
	}
	if !allowed || part.Addr() != whole.Addr()+uintptr(int(o.Rank)*part.Size()) {
		o.Failf("the output %v and the input %v share memory", out, in)
	}
}

// parts sets the length of each rank's part; own is this rank's.
func (o *Op) parts(own colligo.Tensor, counts []int) {
	if !o.valid() {
		return
	}
	if counts == nil {
		o.Count = own.Len()
		return
	}
	if len(counts) != int(o.Size) {
		o.Failf("%d counts for %d ranks", len(counts), o.Size)
		return
	}
	for i, c := range counts {
		if c < 0 {
			o.Failf("count %d of rank %d", c, i)
		}
	}
	if counts[o.Rank] != own.Len() {
		o.Failf("the tensor has %d elements, the counts say %d", own.Len(), counts[o.Rank])
	}
	o.More().Counts = append([]int(nil), counts...)
}

// fits checks the root's list against the parts.
func (o *Op) fits(list []colligo.Tensor) {
	if !o.valid() {
		return
	}
	counts := o.Rare().Counts
	for i, t := range list {
		want := o.Count
		if counts != nil {
			want = counts[i]
		}
		if t.Len() != want {
			o.Failf("tensor %d of the root has %d elements, rank %d's part has %d", i, t.Len(), i, want)
		}
	}
}
