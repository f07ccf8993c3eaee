package main

import (
	"context"
	"sync/atomic"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
)

// trial is one collective bound to its tensors.
type trial struct {
	in, out colligo.Tensor // the same where a collective works in place
	call    func(ctx context.Context) error
	fill    func() error          // sets the inputs and poisons the outputs
	wrong   func() (int64, error) // elements of this rank that are not right after fill and one call
}

// binding is what a collective is bound to.
type binding struct {
	group *pg.Group
	testCase
	pattern
	root, count int
	memory      memory
}

// input returns the tensor of n elements that a collective reads.
func (b *binding) input(n int) colligo.Tensor { return b.memory.tensor(inputs, b.dtype, n) }

// output returns the tensor of n elements that a collective writes.
func (b *binding) output(n int) colligo.Tensor { return b.memory.tensor(outputs, b.dtype, n) }

// perElement is how many numbers of the pattern an element takes: two if it is complex, else one.
func (b *binding) perElement() int { return b.dtype.Size() / b.dtype.Real().Size() }

// numbers are those of a tensor, counted from its first.
type numbers func(i int) float64

// from returns the numbers of a rank's input from element first on.
func (b *binding) from(rank, first int) numbers {
	offset := first * b.perElement()
	return func(i int) float64 { return b.value(rank, offset+i) }
}

// reducedFrom returns the numbers of the reduction from element first on.
func (b *binding) reducedFrom(first int) numbers {
	offset := first * b.perElement()
	return func(i int) float64 { return b.reduced(offset + i) }
}

// shifted returns the numbers of the part of a tensor that begins at element first.
func (b *binding) shifted(f numbers, first int) numbers {
	offset := first * b.perElement()
	return func(i int) float64 { return f(offset + i) }
}

// set fills a tensor.
func (b *binding) set(t colligo.Tensor, f numbers) error {
	return b.memory.write(t, func(part colligo.Tensor, first int) { fill(part, b.shifted(f, first)) })
}

// poison overwrites a tensor, so that an element that nobody writes is wrong.
func (b *binding) poison(t colligo.Tensor) error {
	return b.memory.write(t, func(part colligo.Tensor, _ int) { poison(part) })
}

// differing counts the elements of a tensor that are not what set would make them.
func (b *binding) differing(t colligo.Tensor, f numbers) (int64, error) {
	var n atomic.Int64
	err := b.memory.read(t, func(part colligo.Tensor, first int) { n.Add(differing(part, b.shifted(f, first))) })
	return n.Load(), err
}

// split cuts a tensor into the ranks' parts.
func (b *binding) split(t colligo.Tensor) []colligo.Tensor {
	parts := make([]colligo.Tensor, b.ranks)
	for r := range parts {
		parts[r] = t.Slice(r*b.count, (r+1)*b.count)
	}
	return parts
}
