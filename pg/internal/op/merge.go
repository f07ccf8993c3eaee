package op

import (
	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/plan"
)

// mergeLimit is the bytes up to which operations of a block share a plan: beyond it copying costs more than waiting once
// for each saves. It decides what goes over the wire, and must be the same on all ranks.
const mergeLimit = 256 << 10

// Part is an operation that another stands for. Its sides are those of the Op.
type Part struct {
	Count     int
	in, out   []byte
	ins, outs []colligo.Tensor // to be copied
}

// Merge puts operations of a block that follow one another together where that is faster. It looks only at what is the same
// on all ranks.
func Merge(all []*Op) []*Op {
	var out []*Op
	for len(all) > 0 {
		n := Run(all)
		if n == 1 {
			out = append(out, all[0])
		} else {
			out = append(out, Together(all[:n]))
		}
		all = all[n:]
	}
	return out
}

// Run returns how many operations, the first of these and those behind it, Merge makes one.
func Run(all []*Op) int {
	n, bytes := 1, all[0].Bytes()
	for n < len(all) && all[0].joins(all[n]) && bytes+all[n].Bytes() <= mergeLimit {
		bytes += all[n].Bytes()
		n++
	}
	return n
}

// joins reports whether two operations can share a plan.
func (o *Op) joins(p *Op) bool {
	switch o.Coll {
	case plan.AllReduce, plan.Broadcast, plan.AllGather, plan.ReduceScatter:
	default:
		return false
	}
	return o.Coll == p.Coll && o.DType == p.DType && o.Root == p.Root && o.Rare().Counts == nil && p.Rare().Counts == nil &&
		o.Reduce == p.Reduce && o.Reduce != colligo.KindPremulSum // factors may differ between ranks
}

// Together makes one operation of several.
func Together(all []*Op) *Op {
	return standingFor(all, func(p *Op) Part {
		part := Part{Count: p.Count}
		part.in, part.out = p.inPlace()
		part.ins, part.outs = p.staged()
		return part
	})
}

// Record makes the operation by which several on a device are numbered, recorded, and known to other ranks. A backend gets them
// themselves.
func Record(all []*Op) *Op {
	return standingFor(all, func(p *Op) Part { return Part{Count: p.Count} })
}

// standingFor makes an operation with the tensors and the counts of several, and with their parts.
func standingFor(all []*Op, partOf func(p *Op) Part) *Op {
	first := all[0]
	o := &Op{Coll: first.Coll, kind: first.kind, DType: first.DType, Reduce: first.Reduce, Device: first.Device, index: first.index,
		Own: first.Own, Ctx: first.Ctx, Size: first.Size, Rank: first.Rank, Root: first.Root}
	r := o.More()
	r.Parts, r.Ins, r.Outs = make([]Part, 0, len(all)), make([]colligo.Tensor, 0, len(all)), make([]colligo.Tensor, 0, len(all))
	for _, p := range all {
		o.Count += p.Count
		r.Ins = append(r.Ins, p.Inputs()...)
		r.Outs = append(r.Outs, p.Outputs()...)
		if more := p.Rare().Parts; more != nil {
			r.Parts = append(r.Parts, more...)
		} else {
			r.Parts = append(r.Parts, partOf(p))
		}
	}
	o.name()
	return o
}

// name says what the flight recorder calls an operation that stands for several.
func (o *Op) name() {
	switch o.Coll {
	case plan.AllReduce:
		o.As(AllReduceCoalesced)
	case plan.AllGather:
		o.rare.Title = "nccl:all_gather_into_tensor_coalesced"
		o.As(Coalesced)
	case plan.ReduceScatter:
		o.rare.Title = "nccl:reduce_scatter_tensor_coalesced"
		o.As(Coalesced)
	}
}

// pack copies tensors that are not contiguous.
func (p *Part) pack(inPlace bool) {
	if p.ins != nil {
		p.in = gatherTensors(p.ins)
	}
	if p.outs != nil && inPlace {
		p.out = p.in
	} else if p.outs != nil {
		p.out = make([]byte, sizeOf(p.outs))
	}
}

// packParts lays the inputs one after the other, for each rank if there is one for each.
func (o *Op) packParts(room *Room) (in, out []byte) {
	nIn, nOut, inPlace := 0, 0, o.Coll == plan.AllReduce
	for i := range o.rare.Parts {
		p := &o.rare.Parts[i]
		p.pack(inPlace)
		nIn, nOut = nIn+len(p.in), nOut+len(p.out)
	}
	if inPlace {
		in = room.take(nIn)
		out = in
	} else {
		all := room.take(nIn + nOut)
		in, out = all[:nIn:nIn], all[nIn:]
	}
	if nIn > 0 {
		o.eachPart(in, plan.ReduceScatter, func(flat []byte, p *Part, from, to int) { copy(flat, p.in[from:to]) })
	}
	return in, out
}

// unpackParts brings the results to their tensors.
func (o *Op) unpackParts(out []byte) {
	if len(out) > 0 {
		o.eachPart(out, plan.AllGather, func(flat []byte, p *Part, from, to int) { copy(p.out[from:to], flat) })
	}
	for _, p := range o.rare.Parts {
		scatterTensors(p.outs, p.out)
	}
}

// eachPart calls f for every part with its bytes in a flat buffer, and where those are in the part's own. For the given
// collective the buffer holds all parts for each rank.
func (o *Op) eachPart(flat []byte, split plan.Coll, f func(flat []byte, p *Part, from, to int)) {
	copies := 1
	if o.Coll == split {
		copies = int(o.Size)
	}
	for c := range copies {
		for i := range o.rare.Parts {
			p := &o.rare.Parts[i]
			n := p.Count * o.Elem()
			f(flat[:n:n], p, c*n, (c+1)*n)
			flat = flat[n:]
		}
	}
}

// Block is a coalescing block: an operation that is over when the operations are that it is made of.
type Block struct {
	Op   // stands for all in the recorder, if there are several
	Ops  []*Op
	left int // operations that are not over
}

// Of makes b, which is zero or was Reset, a block of operations.
func (b *Block) Of(ops []*Op) {
	first := ops[0]
	b.Size, b.Rank, b.Own, b.Ctx = first.Size, first.Rank, first.Own, first.Ctx
	b.As(Coalesced)
	b.Ops, b.left = ops, len(ops)
}

// Reset makes b zero, for another use. Nothing may refer to it any more.
func (b *Block) Reset() {
	b.Op.Reset()
	b.Ops, b.left = nil, 0
}

// NewBlock makes a block of operations that know it.
func NewBlock(ops []*Op) *Block {
	b := new(Block)
	b.Of(ops)
	for _, o := range ops {
		o.More().Block = b
	}
	return b
}

// Stands returns the operation by which a program knows the block: the only one, or what stands for several.
func (b *Block) Stands() *Op {
	if o := b.Single(); o != nil {
		return o
	}
	return &b.Op
}

// First returns the operation itself, or the first of the block on a device that it stands for.
func (o *Op) First() *Op {
	if b := o.Rare().Block; b != nil && &b.Op == o {
		return b.Ops[0]
	}
	return o
}

// Single returns the only operation of a block, and nil where there are several.
func (b *Block) Single() *Op {
	if len(b.Ops) == 1 {
		return b.Ops[0]
	}
	return nil
}

// PartEnded notes that one operation of the block is over. It reports whether the block is, which has the error of the first
// operation that failed.
func (b *Block) PartEnded(err error) (over bool) {
	if b.Err == nil {
		b.Err = err
	}
	b.left--
	return b.left == 0
}
