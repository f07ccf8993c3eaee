package kernels

import (
	"fmt"
	"unsafe"

	"github.com/colligo-go/colligo"
)

// Copy copies the elements of src to dst in row-major order. Both are on the CPU, of one element type and number of
// elements; shapes and strides are free. Contiguous tensors may overlap; others must not.
func Copy(dst, src colligo.Tensor) {
	if !dst.Valid() || dst.DType() != src.DType() || dst.Len() != src.Len() ||
		dst.Device().Kind != colligo.CPU || src.Device().Kind != colligo.CPU {
		panic(fmt.Sprintf("kernels: copy of %v to %v", src, dst))
	}
	if dst.Contiguous() && src.Contiguous() {
		copy(dst.CPUBytes(), src.CPUBytes())
		return
	}
	switch size := dst.DType().Size(); {
	case dst.DType() == colligo.Complex64:
		copyRuns[complex64](dst, src) // aligned to four bytes only
	case size == 1:
		copyRuns[uint8](dst, src)
	case size == 2:
		copyRuns[uint16](dst, src)
	case size == 4:
		copyRuns[uint32](dst, src)
	case size == 8:
		copyRuns[uint64](dst, src)
	default:
		copyRuns[complex128](dst, src)
	}
}

// copyRuns walks both tensors run by run. A run is one pass over a tensor's innermost dimension. It copies the rest of the shorter of the
// two runs, and goes on.
func copyRuns[T any](dst, src colligo.Tensor) {
	var dims [2][8]dim
	d, s := walk(dst, dims[0][:0]), walk(src, dims[1][:0])
	for left := dst.Len(); left > 0; {
		n := min(d.run(), s.run())
		copyRun(at[T](dst, d.offset), at[T](src, s.offset), n, d.stride(), s.stride())
		d.advance(n)
		s.advance(n)
		left -= n
	}
}

func at[T any](t colligo.Tensor, offset int) *T {
	var e T
	return (*T)(unsafe.Add(t.Pointer(), offset*int(unsafe.Sizeof(e))))
}

func copyRun[T any](dst, src *T, n, dstStride, srcStride int) {
	d, s := unsafe.Slice(dst, (n-1)*dstStride+1), unsafe.Slice(src, (n-1)*srcStride+1)
	if dstStride == 1 && srcStride == 1 {
		copy(d, s)
		return
	}
	for i, j := 0, 0; n > 0; n-- {
		d[i] = s[j]
		i, j = i+dstStride, j+srcStride
	}
}

// A walker goes through a tensor's elements in row-major order.
type walker struct {
	dims   []dim // outermost first, at least one
	offset int   // of the next element, in elements
}

type dim struct {
	size, stride int // stride in elements
	done         int // elements of this dimension passed
}

// walk starts a walker whose dimensions are merged where elements follow one another in equal strides. It appends them
// to dims.
func walk(t colligo.Tensor, dims []dim) walker {
	if t.Contiguous() {
		return walker{dims: append(dims, dim{size: t.Len(), stride: 1})}
	}
	strides := t.Strides()
	for i, n := range t.Shape() {
		last := len(dims) - 1
		switch {
		case n == 1:
		case last >= 0 && dims[last].stride == n*strides[i]:
			dims[last] = dim{size: dims[last].size * n, stride: strides[i]}
		default:
			dims = append(dims, dim{size: n, stride: strides[i]})
		}
	}
	return walker{dims: dims} // not empty: a tensor that is not contiguous has a dimension above 1
}

// run returns how many elements the innermost dimension has left, stride the distance between them.
func (w *walker) run() int    { return w.dims[len(w.dims)-1].size - w.dims[len(w.dims)-1].done }
func (w *walker) stride() int { return w.dims[len(w.dims)-1].stride }

// advance passes n elements, at most run, and carries into the outer dimensions.
func (w *walker) advance(n int) {
	for i := len(w.dims) - 1; i >= 0; i-- {
		d := &w.dims[i]
		w.offset += n * d.stride
		if d.done += n; d.done < d.size {
			return
		}
		w.offset -= d.size * d.stride
		d.done, n = 0, 1
	}
}
