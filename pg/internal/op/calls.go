package op

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/kernels"
	"github.com/colligo-go/colligo/plan"
	"github.com/colligo-go/colligo/transport"
)

// ErrNoTensors is what is wrong with a call of an empty list.
var ErrNoTensors = errors.New("the list of tensors is empty")

// Spares keeps one operation of a group's blocking calls for the next call. It is no sync.Pool, which the garbage collector
// empties.
type Spares struct{ one atomic.Pointer[Op] }

// Take returns an operation that is zero but for Rank and Size. Put takes it back.
func (s *Spares) Take(size, rank int) *Op {
	o := s.one.Swap(nil)
	if o == nil {
		o = &Op{known: new(known)}
	}
	o.Size, o.Rank = int32(size), int32(rank)
	return o
}

// Put takes back an operation that is over. Nothing may refer to it any more.
func (s *Spares) Put(o *Op) {
	o.Reset()
	s.one.Store(o)
}

// AllReduce makes o, which is zero but for Rank and Size, an all-reduce. So do the methods that follow for their collective.
func (o *Op) AllReduce(t colligo.Tensor, by colligo.ReduceOp) *Op {
	o.begin(plan.AllReduce, &t)
	o.Count = t.Len()
	if o.valid() {
		flat := o.flat(&t)
		o.In, o.Out = *flat, *flat
	}
	o.reduceWith(by)
	return o
}

// Broadcast makes o a broadcast.
func (o *Op) Broadcast(t colligo.Tensor, root int) *Op {
	o.begin(plan.Broadcast, &t)
	o.Count = t.Len()
	o.rooted(root)
	if !o.valid() {
		return o
	}
	if o.Rank == o.Root {
		o.In = *o.flat(&t)
	} else {
		o.Out = *o.flat(&t)
	}
	return o
}

// ReduceTo makes o a reduce.
func (o *Op) ReduceTo(t colligo.Tensor, root int, by colligo.ReduceOp) *Op {
	o.begin(plan.Reduce, &t)
	o.Count = t.Len()
	o.rooted(root)
	o.read(&t)
	if o.Rank == o.Root {
		o.write(&t)
	}
	o.reduceWith(by)
	return o
}

// AllGather makes o an all-gather to a list.
func (o *Op) AllGather(outs []colligo.Tensor, in colligo.Tensor) *Op {
	if mixes(&in, outs) {
		outs, in = asReals(outs), asReal(in)
	}
	o.begin(plan.AllGather, &in)
	o.read(&in)
	o.writeList(outs)
	if !o.valid() {
		return o
	}
	own := outs[o.Rank]
	if own.Len() != in.Len() {
		o.Failf("the input has %d elements, output %d has %d", in.Len(), o.Rank, own.Len())
	}
	if o.clash() && in.Addr() != own.Addr() {
		o.More().stageIn = true
	}
	var counts []int
	if o.Count, counts = lengths(outs); counts != nil {
		o.More().Counts = counts
	}
	return o
}

// AllGatherInto makes o an all-gather to one tensor.
func (o *Op) AllGatherInto(out, in colligo.Tensor) *Op {
	o.begin(plan.AllGather, &in)
	o.Count = in.Len()
	o.read(&in)
	o.write(&out)
	if want := in.Len() * int(o.Size); o.valid() && out.Len() != want {
		o.Failf("the output has %d elements, %d ranks of %d elements need %d", out.Len(), o.Size, in.Len(), want)
	}
	o.separate(out, in, true)
	return o
}

// ReduceScatter makes o a reduce-scatter of a list.
func (o *Op) ReduceScatter(out colligo.Tensor, ins []colligo.Tensor, by colligo.ReduceOp) *Op {
	if mixes(&out, ins) {
		ins, out = asReals(ins), asReal(out)
		o.reducesPairs(by)
	}
	o.begin(plan.ReduceScatter, &out)
	o.write(&out)
	o.readList(ins)
	o.reduceWith(by)
	if !o.valid() {
		return o
	}
	own := ins[o.Rank]
	if own.Len() != out.Len() {
		o.Failf("the output has %d elements, input %d has %d", out.Len(), o.Rank, own.Len())
	}
	if o.clash() && out.Addr() != own.Addr() {
		o.More().stageIn = true
	}
	var counts []int
	if o.Count, counts = lengths(ins); counts != nil {
		o.More().Counts = counts
	}
	return o
}

// ReduceScatterTensor makes o a reduce-scatter of one tensor.
func (o *Op) ReduceScatterTensor(out, in colligo.Tensor, by colligo.ReduceOp) *Op {
	o.begin(plan.ReduceScatter, &out)
	o.Count = out.Len()
	o.write(&out)
	o.read(&in)
	if want := out.Len() * int(o.Size); o.valid() && in.Len() != want {
		o.Failf("the input has %d elements, %d ranks of %d elements need %d", in.Len(), o.Size, out.Len(), want)
	}
	o.separate(out, in, true)
	o.reduceWith(by)
	return o
}

// AllToAll makes o an all-to-all between lists.
func (o *Op) AllToAll(outs, ins []colligo.Tensor) *Op {
	if len(ins) == 0 {
		o.Coll = plan.AllToAll
		o.Fail(ErrNoTensors)
		return o
	}
	if mixes(&ins[0], ins) || mixes(&ins[0], outs) {
		ins, outs = asReals(ins), asReals(outs)
	}
	o.begin(plan.AllToAll, &ins[0])
	o.readList(ins)
	o.writeList(outs)
	if o.clash() {
		o.More().stageIn = true
	}
	if o.valid() {
		o.split(allLengths(ins), allLengths(outs))
	}
	return o
}

// AllToAllSingle makes o an all-to-all between two tensors.
func (o *Op) AllToAllSingle(out, in colligo.Tensor, outSplits, inSplits []int) *Op {
	o.begin(plan.AllToAll, &in)
	o.read(&in)
	o.write(&out)
	if !o.valid() {
		return o
	}
	if outSplits == nil && inSplits == nil {
		if o.Count = in.Len() / int(o.Size); in.Len() != out.Len() || in.Len()%int(o.Size) != 0 {
			o.Failf("%d elements in and %d out cannot be split evenly over %d ranks", in.Len(), out.Len(), o.Size)
		}
	} else {
		o.split(o.splits(inSplits, in.Len()), o.splits(outSplits, out.Len()))
	}
	o.separate(out, in, false)
	return o
}

// split sets the elements that go to and come from each rank.
func (o *Op) split(to, from []int) {
	if o.valid() && to[o.Rank] != from[o.Rank] {
		o.Failf("rank %d sends %d elements to itself and receives %d", o.Rank, to[o.Rank], from[o.Rank])
	}
	r := o.More()
	r.Counts, r.Recvs = to, from
}

// splits checks the parts of a tensor of n elements; nil cuts it evenly.
func (o *Op) splits(parts []int, n int) []int {
	size := int(o.Size)
	if parts == nil {
		if n%size != 0 {
			o.Failf("%d elements cannot be split evenly over %d ranks", n, size)
			return nil
		}
		parts = make([]int, size)
		for i := range parts {
			parts[i] = n / size
		}
		return parts
	}
	sum := 0
	for i, p := range parts {
		if p < 0 {
			o.Failf("split %d is %d", i, p)
		}
		sum += min(p, math.MaxInt-sum) // a part that does not fit stays wrong
	}
	if len(parts) != size || sum != n {
		o.Failf("%d splits of %d elements together for %d ranks and a tensor of %d elements", len(parts), sum, size, n)
	}
	return append([]int(nil), parts...)
}

// Gather makes o a gather; nil counts stand for inputs of one length.
func (o *Op) Gather(outs []colligo.Tensor, in colligo.Tensor, counts []int, root int) *Op {
	if mixes(&in, outs) {
		outs, in = asReals(outs), asReal(in)
	}
	o.begin(plan.Gather, &in)
	o.rooted(root)
	o.read(&in)
	o.parts(in, counts)
	if o.Rank == o.Root {
		o.writeList(outs)
		o.fits(outs)
	} else if len(outs) != 0 {
		o.Failf("%d output tensors on rank %d, which is not the root %d", len(outs), o.Rank, root)
	}
	return o
}

// Scatter makes o a scatter; nil counts stand for outputs of one length.
func (o *Op) Scatter(out colligo.Tensor, ins []colligo.Tensor, counts []int, root int) *Op {
	if mixes(&out, ins) {
		ins, out = asReals(ins), asReal(out)
	}
	o.begin(plan.Scatter, &out)
	o.rooted(root)
	o.write(&out)
	o.parts(out, counts)
	if o.Rank == o.Root {
		o.readList(ins)
		o.fits(ins)
	} else if len(ins) != 0 {
		o.Failf("%d input tensors on rank %d, which is not the root %d", len(ins), o.Rank, root)
	}
	return o
}

// Barrier makes o a barrier of what the ranks enqueued on a device, or on the CPU.
func (o *Op) Barrier(on colligo.Device) *Op {
	o.Coll, o.Device, o.index = plan.Barrier, on.Kind, int32(on.Index)
	if on.Index < 0 {
		o.Failf("there is no device %v", on)
	}
	return o
}

// Send makes o a send.
func (o *Op) Send(t colligo.Tensor, to, tag int) *Op {
	o.message(plan.Send, &t, to, tag)
	o.read(&t)
	return o
}

// Recv makes o a receive.
func (o *Op) Recv(t colligo.Tensor, from, tag int) *Op {
	o.message(plan.Recv, &t, from, tag)
	o.write(&t)
	return o
}

func (o *Op) message(coll plan.Coll, t *colligo.Tensor, peer, tag int) {
	o.begin(coll, t)
	o.Count, o.Peer, o.Tag, o.Any = t.Len(), int32(peer), int32(tag), peer == AnyPeer && coll == plan.Recv
	if !o.Any && (peer < 0 || peer >= int(o.Size)) {
		o.Failf("peer %d of a group of %d ranks", peer, o.Size)
	}
	if o.Any && !o.OnCPU() {
		o.Failf("a receive from any rank into a tensor on %v: a GPU has to be told which rank it waits for, give the source", o.DeviceID())
	}
	if peer == int(o.Rank) {
		o.More().ToSelf = true
	}
	if tag != int(int32(tag)) {
		o.Failf("tag %d does not fit into 32 bits", tag)
	}
}

// begin makes o, which is zero but for Rank and Size, an operation on a tensor that tells element type and device.
func (o *Op) begin(coll plan.Coll, t *colligo.Tensor) {
	d := t.Device()
	o.Coll, o.DType, o.Device, o.index = coll, t.DType(), d.Kind, int32(d.Index)
	if o.Rank == colligo.NoRank {
		o.More().Wrong = ErrNotMember
	}
	if !t.Valid() {
		o.invalid()
	}
	if !t.Contiguous() && !o.OnCPU() && o.valid() {
		o.layout(t, true)
	}
}

// reducesPairs refuses a reduction of complex elements that are viewed as reals, if it is not defined on them.
func (o *Op) reducesPairs(by colligo.ReduceOp) {
	if _, _, err := by.Kind().Check(colligo.Complex64); err != nil {
		o.Fail(err)
	}
}

// check refuses tensors of another type or device than the first, and on a device those that lie otherwise.
func (o *Op) check(t *colligo.Tensor) {
	o.alike(t)
	if !o.OnCPU() && o.valid() {
		o.layout(t, false)
	}
}

func (o *Op) alike(t *colligo.Tensor) {
	switch {
	case !t.Valid():
		o.invalid()
	case t.Device() != o.DeviceID():
		o.Failf("tensors on %v and %v in one call", o.DeviceID(), t.Device())
	case t.DType() != o.DType:
		o.Failf("tensors of %v and %v in one call", o.DType, t.DType())
	}
}

// valid reports whether nothing is known to be wrong with the arguments.
func (o *Op) valid() bool { return !o.unusual || o.rare.Wrong == nil }

// Wrong returns what is wrong with the arguments.
func (o *Op) Wrong() error {
	if !o.unusual {
		return nil
	}
	return o.wrong()
}

func (o *Op) wrong() error {
	r := o.rare
	if r.Wrong == nil && r.ToSelf && r.OtherEnd == nil {
		return fmt.Errorf("rank %d is this rank itself: both ends of its message must be in one batch or block", o.Rank)
	}
	return r.Wrong
}

func (o *Op) invalid() { o.Failf("invalid tensor") }

// reduceWith sets the reduction.
func (o *Op) reduceWith(by colligo.ReduceOp) {
	o.Reduce = by.Kind()
	if !o.valid() {
		return
	}
	if _, err := kernels.Lookup(o.DType, o.Reduce); err != nil {
		o.Fail(err)
		return
	}
	if o.Reduce != colligo.KindPremulSum {
		return
	}
	o.More().Factor = by
	if _, f := by.Factor(); f != nil && (f.Len() != 1 || f.DType() != o.DType.Real() ||
		f.Device().Kind != colligo.CPU && f.Device() != o.DeviceID()) {
		o.Failf("the factor of premul_sum is %v, it must be one %v element on the CPU or on the device of the tensors", f, o.DType.Real())
	}
}

// Identify writes the identity that an operation's frames carry to c, its final address. A copy of the struct, right after
// its fields of one byte have been written, would wait for them.
func (o *Op) Identify(c *transport.Call, group uint32) {
	*c = transport.Call{}
	c.Group, c.Coll, c.DType, c.Seq, c.Root = group, uint8(o.Coll), uint8(o.DType), uint64(o.Seq), o.Root
	if o.Coll.Reduces() {
		c.Op = uint8(o.Reduce)
	}
	if o.Coll != plan.AllToAll { // of which every rank may have its own splits; only pairs of ranks share a count
		c.Count = uint64(o.Elements())
	}
	if !o.unusual {
		return
	}
	if signature := o.Signature(); signature != 0 {
		sign(c, o.Coll, signature)
	}
}

// Common returns what all ranks must have in common of a call beside its number.
func Common(c *transport.Call) (kind, count uint64) {
	coll := plan.Coll(c.Coll)
	kind = uint64(coll)
	if coll == plan.Barrier {
		return kind, 0
	}
	kind |= uint64(c.DType) << 8
	if coll == plan.AllToAll { // each rank has lengths of its own
		return kind, 0
	}
	kind |= uint64(uint32(c.Root)) << 32
	if coll.Reduces() || coll == plan.Broadcast {
		kind |= uint64(c.Op) << 16
	}
	return kind, c.Count
}

// Identity returns the identity of an operation.
func (o *Op) Identity(group uint32) (c transport.Call) {
	o.Identify(&c, group)
	return c
}

// Signature tells operations apart that stand for several: which of their elements meet is decided by the length of each. It is 0 for
// the others.
func (o *Op) Signature() int32 {
	if !o.unusual {
		return 0
	}
	return o.signature()
}

func (o *Op) signature() int32 {
	r := o.rare
	if r.Parts == nil {
		return r.Signed
	}
	h := uint64(1)
	for i := range r.Parts {
		h = (h ^ uint64(r.Parts[i].Count)) * 0x9e3779b97f4a7c15
		h ^= h >> 29
	}
	if o.Coll.Rooted() {
		return max(int32(uint8(h>>32)), 1)
	}
	return max(int32(h>>32&math.MaxInt32), 1)
}

// sign puts a signature into a call, which has no field for that. It lies where the collective has nothing to say: for a broadcast in
// the field of the reduction, else in that of the root.
func sign(c *transport.Call, coll plan.Coll, signature int32) {
	if coll.Rooted() {
		c.Op = uint8(signature)
	} else {
		c.Root = signature
	}
}
