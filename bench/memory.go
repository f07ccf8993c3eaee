package main

import "github.com/colligo-go/colligo"

// stretch is one of the two pieces of memory that a rank has.
type stretch int

const (
	inputs stretch = iota
	outputs
	stretches
)

// memory is where a rank's tensors lie. It is taken once, for the largest size.
type memory interface {
	// tensor returns the first n elements of a stretch.
	tensor(s stretch, d colligo.DType, n int) colligo.Tensor
	// write sets a tensor to what f writes into its parts, which are CPU tensors and come with the index of their first
	// element. Parts are made in any order, and several at once.
	write(t colligo.Tensor, f func(part colligo.Tensor, first int)) error
	// read hands f the parts of a tensor, in the same manner.
	read(t colligo.Tensor, f func(part colligo.Tensor, first int)) error
}

// hostMemory is that of the CPU.
type hostMemory [stretches][]byte

// newHostMemory has at least a page in each stretch, which also aligns it for every element type.
func newHostMemory(bytes int) *hostMemory {
	m := &hostMemory{}
	for i := range m {
		m[i] = make([]byte, max(bytes, 4096))
	}
	return m
}

func (m *hostMemory) tensor(s stretch, d colligo.DType, n int) colligo.Tensor {
	return colligo.Bytes(m[s][:n*d.Size()], d)
}

func (m *hostMemory) write(t colligo.Tensor, f func(part colligo.Tensor, first int)) error {
	f(t, 0)
	return nil
}

func (m *hostMemory) read(t colligo.Tensor, f func(part colligo.Tensor, first int)) error {
	f(t, 0)
	return nil
}
