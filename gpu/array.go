package gpu

import (
	"errors"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
)

// Array is memory on a rank's GPU that holds elements of a Go type. It owns the memory until Free, or until Run returns. Its
// methods are for the rank's goroutine.
type Array[T colligo.Element] struct {
	rank   *Rank
	memory *cuda.Array[T]
}

// NewArray takes memory on the rank's GPU for count elements, which have no defined values. It panics if count is negative. An error
// says how many bytes there are not, and leaves the group as it was. c10d: torch.empty on a CUDA device.
func NewArray[T colligo.Element](r *Rank, count int) (*Array[T], error) {
	memory, err := cuda.NewArray[T](r.Thread, count)
	if err != nil {
		return nil, err
	}
	a := &Array[T]{r, memory}
	r.arrays[a] = a.Free
	return a, nil
}

// ArrayOf takes memory on the rank's GPU and copies a slice there. The slice is the caller's again when ArrayOf returns. An error
// says that there is not enough memory, or that the copy failed. No memory is kept then. c10d: torch.tensor on a CUDA device.
func ArrayOf[T colligo.Element](r *Rank, from []T) (*Array[T], error) {
	a, err := NewArray[T](r, len(from))
	if err != nil {
		return nil, err
	}
	if err := a.Write(from); err != nil {
		return nil, errors.Join(err, a.Free())
	}
	return a, nil
}

// Len returns the number of elements, 0 after Free.
func (a *Array[T]) Len() int { return a.memory.Len() }

// Tensor returns a tensor over all elements, of the given shape or of one dimension. It panics if the shape has another number of
// elements. Nothing may use the tensor after Free, or after Run.
func (a *Array[T]) Tensor(shape ...int) colligo.Tensor { return a.memory.Tensor(shape...) }

// Write copies a slice to the first elements, behind all that the rank's stream has been given before, and waits for the copy. It
// panics if the slice is longer than the array.
func (a *Array[T]) Write(from []T) error { return a.memory.Write(a.rank.Thread, from, a.rank.Stream) }

// Read copies the first elements into a slice, behind all that the rank's stream has been given before, and waits for the copy. It
// panics if the slice is longer than the array.
func (a *Array[T]) Read(to []T) error { return a.memory.Read(a.rank.Thread, to, a.rank.Stream) }

// Slice returns a copy of all elements, as Read does. c10d: Tensor.tolist.
func (a *Array[T]) Slice() ([]T, error) {
	to := make([]T, a.Len())
	return to, a.Read(to)
}

// Free gives the memory back before Run returns. It waits until the device is idle, and no operation may have the memory any more.
// A second Free does nothing.
func (a *Array[T]) Free() error {
	delete(a.rank.arrays, a)
	return a.memory.Free(a.rank.Thread)
}
