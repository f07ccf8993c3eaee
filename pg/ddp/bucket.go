package ddp

import (
	"slices"

	"github.com/colligo-go/colligo"
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
	b := &Bucket{Params: members, Buffer: buffer, pending: len(members)}
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
