package pg

import (
	"fmt"
	"unsafe"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/internal/engine"
	"github.com/colligo-go/colligo/kernels"
	"github.com/colligo-go/colligo/plan"
)

// request is a call whose arguments have been checked. Lengths and counts are in elements of the tensors.
type request struct {
	coll         plan.Coll
	kind         OpType // see opType
	title        string // in the flight recorder, where the type does not tell it
	rec          record
	size         int // ranks of the group
	op           colligo.ReduceOp
	dtype        colligo.DType   // of the tensors
	device       colligo.Device  // of the tensors
	kern         *kernels.Kernel // of collectives that reduce
	elem         int             // bytes of one element
	count        int
	counts, recv []int // of uneven collectives
	root         int
	peer, tag    int // of send and recv; the peer may be anyPeer

	in, out   []byte              // what the plan works on
	ins, outs []colligo.Tensor    // tensors that have to be staged, else nil; on a device, lists
	src, dst  colligo.Tensor      // what was called with, where it is no list; on a device in place of in and out
	keep      [2][]colligo.Tensor // lists that in and out view as one: each tensor may be memory of its own, to be kept alive
	members   []member            // operations of a block that this one stands for, see merge
	room      *[]byte             // memory of the group for packing them
	block     *whole              // the block that the operation is one of, nil for most
	err       error
	due       *operation // on a device and asynchronous: what the watchdog knows of it
}

// newRequest begins a request, which is zero, on a tensor that tells element type and device. A request is large: those who
// make one write it where it is returned, so that it is copied but once.
func (g *Group) newRequest(r *request, coll plan.Coll, t colligo.Tensor) {
	g = g.orOutside()
	r.coll, r.size, r.dtype, r.device, r.elem = coll, g.size, t.DType(), t.Device(), t.DType().Size()
	if g.rank == colligo.NoRank {
		r.err = ErrNotMember
	}
	r.check(&t)
}

// failf records the first thing that is wrong with the arguments.
func (r *request) failf(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

// check refuses tensors of another type or device than the first, and on a device those that are not contiguous.
func (r *request) check(t *colligo.Tensor) {
	switch {
	case !t.Valid():
		r.failf("invalid tensor")
	case t.Device() != r.device:
		r.failf("tensors on %v and %v in one call", r.device, t.Device())
	case t.Device().Kind != colligo.CPU && !t.Contiguous():
		r.failf("%v is not contiguous, as tensors on a device must be", *t)
	case t.DType() != r.dtype:
		r.failf("tensors of %v and %v in one call", r.dtype, t.DType())
	}
}

// reduceWith sets the reduction.
func (r *request) reduceWith(op colligo.ReduceOp) {
	if r.err != nil {
		return
	}
	r.op = op
	if r.kern, r.err = kernels.Lookup(r.dtype, op.Kind()); r.err != nil {
		return
	}
	if _, by := op.Factor(); by != nil && (by.Len() != 1 || by.DType() != r.dtype.Real() || by.Device().Kind != colligo.CPU) {
		r.failf("the factor of premul_sum is %v, it must be one %v element on the CPU", by, r.dtype.Real())
	}
}

// rooted sets the root.
func (r *request) rooted(root int) {
	if root < 0 || root >= r.size {
		r.failf("root %d of a group of %d ranks", root, r.size)
	}
	r.root = root
}

// read makes t the input, write the output; both stage what is not contiguous.
func (r *request) read(t colligo.Tensor) {
	r.check(&t)
	r.readChecked(&t)
}

func (r *request) write(t colligo.Tensor) {
	r.check(&t)
	r.writeChecked(&t)
}

// readChecked is read of the tensor that the request began with.
func (r *request) readChecked(t *colligo.Tensor) {
	if r.err != nil {
		return
	}
	r.src = *t
	if r.device.Kind != colligo.CPU {
		return
	}
	if t.Contiguous() {
		r.in = t.CPUBytes()
	} else {
		r.ins = []colligo.Tensor{*t}
	}
}

// writeChecked is write of the tensor that the request began with.
func (r *request) writeChecked(t *colligo.Tensor) {
	if r.err != nil {
		return
	}
	r.dst = *t
	if r.device.Kind != colligo.CPU {
		return
	}
	if t.Contiguous() {
		r.out = t.CPUBytes()
	} else {
		r.outs = []colligo.Tensor{*t}
	}
}

// readList and writeList take one tensor for each rank; lists that lie in memory one after the other are not staged.
func (r *request) readList(ts []colligo.Tensor) {
	if r.list(ts) {
		if b, ok := joined(ts); ok {
			r.in, r.keep[0] = b, ts
		} else {
			r.ins = ts
		}
	}
}

func (r *request) writeList(ts []colligo.Tensor) {
	if r.list(ts) {
		if b, ok := joined(ts); ok {
			r.out, r.keep[1] = b, ts
		} else {
			r.outs = ts
		}
	}
}

func (r *request) list(ts []colligo.Tensor) bool {
	if len(ts) != r.size {
		r.failf("%d tensors for %d ranks", len(ts), r.size)
	}
	for i := range ts {
		r.check(&ts[i])
	}
	return r.err == nil
}

// joined returns the memory of tensors that follow one another without gaps. They can be allocations of their own that
// happen to be neighbours: the caller keeps all of them alive, and the slice is not made by unsafe.Slice, which ends
// programs built with the race detector when it finds more than one allocation.
func joined(ts []colligo.Tensor) ([]byte, bool) {
	if ts[0].Device().Kind != colligo.CPU {
		return nil, false
	}
	n := 0
	for _, t := range ts {
		if !t.Contiguous() || t.Size() > 0 && t.Addr() != ts[0].Addr()+uintptr(n) {
			return nil, false
		}
		n += t.Size()
	}
	var b []byte
	*(*header)(unsafe.Pointer(&b)) = header{ts[0].Pointer(), n, n}
	return b, true
}

// header is the memory of a slice.
type header struct {
	data     unsafe.Pointer
	len, cap int
}

// lengths returns the elements of each tensor of a list, nil if all have the first one's.
func lengths(ts []colligo.Tensor) (each int, counts []int) {
	even := true
	for _, t := range ts {
		even = even && t.Len() == ts[0].Len()
	}
	if even && len(ts) > 0 {
		return ts[0].Len(), nil
	}
	counts = make([]int, len(ts))
	for i, t := range ts {
		counts[i] = t.Len()
	}
	return 0, counts
}

// pack stages inputs that are not contiguous and premultiplies.
func (r *request) pack() error {
	if r.members != nil {
		r.packMembers()
		return nil
	}
	same := len(r.in) == len(r.out) && unsafe.SliceData(r.in) == unsafe.SliceData(r.out)
	if r.ins != nil {
		r.in = gatherTensors(r.ins)
	}
	if r.outs != nil && r.coll == plan.AllReduce {
		r.out = r.in
	} else if r.outs != nil {
		r.out = make([]byte, sizeOf(r.outs))
	}
	if r.op.Kind() != colligo.KindPremulSum {
		return nil
	}
	factor, err := r.factor()
	if err != nil {
		return err
	}
	dst := r.in
	if !same && r.ins == nil {
		dst = make([]byte, len(r.in))
	}
	r.kern.Scale(dst, r.in, factor)
	r.in = dst
	return nil
}

func (r *request) factor() (float64, error) {
	f, by := r.op.Factor()
	if by == nil {
		return f, nil
	}
	return kernels.Scalar(*by)
}

// unpack brings staged results to their tensors.
func (r *request) unpack() {
	if r.members != nil {
		r.unpackMembers()
	}
	scatterTensors(r.outs, r.out)
}

// release drops the references to the caller's memory.
func (r *request) release() {
	r.in, r.out, r.ins, r.outs, r.keep = nil, nil, nil, nil, [2][]colligo.Tensor{}
	r.src, r.dst, r.members = colligo.Tensor{}, colligo.Tensor{}, nil
}

func sizeOf(ts []colligo.Tensor) int {
	n := 0
	for _, t := range ts {
		n += t.Size()
	}
	return n
}

// scatterTensors copies what lies one after the other to tensors.
func scatterTensors(ts []colligo.Tensor, from []byte) {
	for _, t := range ts {
		n := t.Size()
		kernels.Copy(t, colligo.Bytes(from[:n:n], t.DType(), t.Shape()...))
		from = from[n:]
	}
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

// alone carries the request out in a group of one rank: what goes in comes out.
func (r *request) alone() error {
	if r.coll == plan.Send || r.coll == plan.Recv {
		return fmt.Errorf("a group of one rank has no peer to %v", r.coll)
	}
	if err := r.pack(); err != nil {
		return err
	}
	copy(r.out, r.in)
	r.unpack()
	return nil
}

func (r *request) kernel() engine.Kernel {
	if r.kern == nil {
		return nil
	}
	return r.kern
}

// what says what was called, such as "float32 sum, 4 MiB".
func (r *request) what() string {
	if r.coll == plan.Barrier || !r.dtype.Valid() {
		return ""
	}
	s := r.dtype.String()
	if r.coll.Reduces() {
		s += " " + r.op.String()
	}
	s += ", " + colligo.FormatBytes(int64(r.volume()))
	if r.coll.Rooted() {
		s += fmt.Sprintf(", root %d", r.root)
	}
	if r.members != nil {
		s += fmt.Sprintf(", %d tensors", len(r.members))
	}
	return s
}

// volume returns the bytes of the whole tensor: the larger of what all ranks put in and get out. It is the same on all
// ranks, but for an all_to_all with splits.
func (r *request) volume() int { return r.elements() * r.elem }

// elements is volume in elements.
func (r *request) elements() int {
	if r.counts != nil {
		n := 0
		for _, c := range r.counts {
			n += c
		}
		return n
	}
	switch r.coll {
	case plan.AllGather, plan.ReduceScatter, plan.Gather, plan.Scatter, plan.AllToAll:
		return r.count * r.size
	}
	return r.count
}
