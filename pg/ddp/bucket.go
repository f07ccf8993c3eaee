package ddp

import (
	"slices"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
)

// Bucket is gradients of one element type and device that are reduced together.
type Bucket struct {
	Index  int            // place in the order of reductions
	Last   bool           // no bucket comes after it
	Params []int          // indices of the parameters
	Buffer colligo.Tensor // all gradients one after the other; a hook may change it
	Grads  []colligo.Tensor

	pending int // gradients of this step that are not there yet
	result  *Future
	ranks   int // of which the mean is taken, 0 for all
	memory  Memory
	rooms   map[room]colligo.Tensor // memory for a hook, kept from step to step
	narrow  map[colligo.DType]*Bucket
}

// room is memory of a hook: its use, element type and elements.
type room struct {
	use   string
	dtype colligo.DType
	count int
}

// Mean returns the reduction with which a hook makes the mean. It is Avg. With Options.JoinMean it is a premultiplied sum while
// some ranks have joined.
func (b *Bucket) Mean(g *pg.Group) colligo.ReduceOp {
	if b.ranks == 0 || b.ranks == g.Size() {
		return colligo.Avg
	}
	return colligo.PremulSum(1 / float64(b.ranks))
}

// room returns memory where the bucket's is.
func (b *Bucket) room(use string, d colligo.DType, count int) (colligo.Tensor, error) {
	key := room{use, d, count}
	if t, ok := b.rooms[key]; ok {
		return t, nil
	}
	t, err := b.memory.Alloc(b.Buffer.Device(), d, count)
	if err == nil {
		if b.rooms == nil {
			b.rooms = map[room]colligo.Tensor{}
		}
		b.rooms[key] = t
	}
	return t, err
}

// narrowed returns the bucket of a narrower type that stands for this one.
func (b *Bucket) narrowed(to colligo.DType) (*Bucket, error) {
	n := b.narrow[to]
	if n == nil {
		buffer, err := b.memory.Alloc(b.Buffer.Device(), to, b.Buffer.Len())
		if err != nil {
			return nil, err
		}
		n = &Bucket{Index: b.Index, Last: b.Last, Params: b.Params, Buffer: buffer, memory: b.memory}
		from := 0
		for _, grad := range b.Grads {
			part := buffer.Slice(from, from+grad.Len())
			n.Grads = append(n.Grads, part.Strided(0, grad.Shape(), grad.Strides()))
			from += grad.Len()
		}
		if b.narrow == nil {
			b.narrow = map[colligo.DType]*Bucket{}
		}
		b.narrow[to] = n
	}
	n.ranks = b.ranks
	return n, nil
}

// place is where a parameter's gradient is.
type place struct{ bucket, index int }

// kind is what gradients of one bucket have in common.
type kind struct {
	dtype  colligo.DType
	device colligo.Device
}

// assign shares out parameters to buckets, each with parameters of one kind. The order given is the one in which gradients
// are expected. The first bucket has at least first bytes, every later one at least rest.
func assign(params []Parameter, order []int, first, rest int) [][]int {
	type open struct{ bytes, limit int }
	state, content := map[kind]*open{}, map[kind][]int{}
	var full [][]int
	var kinds []kind // in the order of appearance, so that all ranks agree
	for _, i := range order {
		g := params[i].Grad
		k := kind{g.DType(), g.Device()}
		s := state[k]
		if s == nil {
			s = &open{limit: first}
			state[k] = s
			kinds = append(kinds, k)
		}
		content[k] = append(content[k], i)
		if s.bytes += g.Size(); s.bytes >= s.limit {
			full = append(full, content[k])
			content[k], s.bytes, s.limit = nil, 0, rest
		}
	}
	for _, k := range kinds {
		if len(content[k]) > 0 {
			full = append(full, content[k])
		}
	}
	return full
}

// newBucket takes memory for the gradients of some parameters.
func newBucket(m Memory, params []Parameter, members []int) (*Bucket, error) {
	n := 0
	for _, i := range members {
		n += params[i].Grad.Len()
	}
	g := params[members[0]].Grad
	buffer, err := m.Alloc(g.Device(), g.DType(), n)
	if err != nil {
		return nil, err
	}
	b := &Bucket{Params: members, Buffer: buffer, pending: len(members), memory: m}
	n = 0
	for _, i := range members {
		g := params[i].Grad
		shape, strides := g.Shape(), g.Strides()
		if !dense(shape, strides) {
			strides = rowMajor(shape)
		}
		b.Grads = append(b.Grads, buffer.Slice(n, n+g.Len()).Strided(0, shape, strides))
		n += g.Len()
	}
	return b, nil
}

// rowMajor returns the strides of a contiguous tensor.
func rowMajor(shape []int) []int {
	strides, n := make([]int, len(shape)), 1
	for i := len(shape) - 1; i >= 0; i-- {
		strides[i] = n
		n *= max(shape[i], 1)
	}
	return strides
}

// dense reports whether strides are those of a contiguous tensor with its dimensions in another order.
func dense(shape, strides []int) bool {
	dims := make([]int, len(shape))
	for i := range dims {
		dims[i] = i
	}
	slices.SortFunc(dims, func(a, b int) int { return strides[a] - strides[b] })
	want := 1
	for _, d := range dims {
		if shape[d] != 1 && strides[d] != want {
			return false
		}
		want *= shape[d]
	}
	return true
}
