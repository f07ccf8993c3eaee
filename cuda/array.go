package cuda

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/colligo-go/colligo"
)

// Array is memory on a device that holds elements of a Go type. It owns the memory: its tensors are valid until Free. For small
// programs and tests it takes the place of Alloc, pinned memory, and pointers. Programs that copy much keep pinned memory instead.
type Array[T colligo.Element] struct {
	place colligo.Device
	at    Pointer
	count int
}

// mostStaged bounds the pinned memory through which a slice is copied, in bytes.
const mostStaged = 1 << 20

// NewArray takes memory on the thread's device for count elements. They have no defined values. It panics if count is negative.
func NewArray[T colligo.Element](t Thread, count int) (*Array[T], error) {
	if count < 0 {
		panic(fmt.Sprintf("cuda: array of %d elements", count))
	}
	a := &Array[T]{place: t.Place(), count: count}
	if count == 0 {
		return a, nil
	}
	var one T
	at, err := t.Alloc(count * int(unsafe.Sizeof(one)))
	if err != nil {
		return nil, err
	}
	a.at = at
	return a, nil
}

// ArrayOf takes memory on the thread's device and copies a slice there, as Write does.
func ArrayOf[T colligo.Element](t Thread, from []T, s Stream) (*Array[T], error) {
	a, err := NewArray[T](t, len(from))
	if err != nil {
		return nil, err
	}
	if err := a.Write(t, from, s); err != nil {
		return nil, errors.Join(err, a.Free(t))
	}
	return a, nil
}

// Len returns the number of elements, 0 after Free.
func (a *Array[T]) Len() int { return a.count }

// Pointer returns where the first element is, 0 without elements and after Free.
func (a *Array[T]) Pointer() Pointer { return a.at }

// Tensor returns a tensor over all elements, of the given shape or of one dimension. Nothing may use it after Free.
func (a *Array[T]) Tensor(shape ...int) colligo.Tensor {
	return colligo.OnDevice(a.place, uintptr(a.at), a.count, colligo.Of[T](nil).DType(), shape...)
}

// Write copies a slice to the first elements, behind all that s has been given before. It returns when the copy is done. It panics if
// the slice is longer than the array. The thread is on the array's device.
func (a *Array[T]) Write(t Thread, from []T, s Stream) error {
	return a.staged(t, from, func(h *Host, part []byte, at Pointer) error {
		copy(h.Bytes, part)
		return errors.Join(t.Copy(at, h.Device, len(part), s), t.Synchronize(s))
	})
}

// Read copies the first elements into a slice, behind all that s has been given before. It returns when the copy is done. It panics
// if the slice is longer than the array. The thread is on the array's device.
func (a *Array[T]) Read(t Thread, to []T, s Stream) error {
	return a.staged(t, to, func(h *Host, part []byte, at Pointer) error {
		err := errors.Join(t.Copy(h.Device, at, len(part), s), t.Synchronize(s))
		if err == nil {
			copy(part, h.Bytes)
		}
		return err
	})
}

// staged calls f for each part of a slice that fits into pinned memory, and for where the part is on the device.
func (a *Array[T]) staged(t Thread, slice []T, f func(h *Host, part []byte, at Pointer) error) (err error) {
	if len(slice) > a.count {
		panic(fmt.Sprintf("cuda: %d elements for an array of %d", len(slice), a.count))
	}
	if len(slice) == 0 {
		return nil
	}
	all := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(slice))), len(slice)*int(unsafe.Sizeof(slice[0])))
	h, err := t.AllocHost(min(len(all), mostStaged))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.FreeHost(h)) }()
	for at := a.at; len(all) > 0 && err == nil; {
		part := all[:min(len(all), len(h.Bytes))]
		err = f(h, part, at)
		all, at = all[len(part):], at+Pointer(len(part))
	}
	return err
}

// Free gives the memory back. It waits until the device is idle, with the danger that Thread.Free has where ranks of one process
// share the device. A second Free does nothing, nor does that of a nil array, which is what NewArray returns with an error.
func (a *Array[T]) Free(t Thread) error {
	if a == nil || a.at == 0 {
		return nil
	}
	at := a.at
	a.at, a.count = 0, 0
	return t.Free(at)
}
