package pg

import "github.com/colligo-go/colligo"

// end returns the address behind a contiguous tensor.
func end(t colligo.Tensor) uintptr { return t.Addr() + uintptr(t.Size()) }

// overlap reports whether two contiguous tensors share memory. Strided ones are not looked at: they may lie between one
// another, as the columns of a matrix do.
func overlap(a, b colligo.Tensor) bool {
	return a.Len() > 0 && b.Len() > 0 && a.Contiguous() && b.Contiguous() && a.Device() == b.Device() &&
		a.Addr() < end(b) && b.Addr() < end(a)
}

// clash reports whether what is read and what is written in place share memory. Of lists that are staged the inputs are
// copied first, or the outputs last: those may.
func (r *request) clash() bool {
	return r.err == nil && len(r.in) > 0 && len(r.out) > 0 &&
		overlap(colligo.Of(r.in), colligo.Of(r.out))
}

// separate refuses an output that shares memory with the input. If allowed, one may be this rank's part of the other.
func (r *request) separate(out, in colligo.Tensor, rank int, allowed bool) {
	if r.err != nil || !overlap(out, in) {
		return
	}
	whole, part := out, in
	if in.Len() > out.Len() {
		whole, part = in, out
	}
	if !allowed || part.Addr() != whole.Addr()+uintptr(rank*part.Size()) {
		r.failf("the output %v and the input %v share memory", out, in)
	}
}
