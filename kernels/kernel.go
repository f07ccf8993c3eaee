package kernels

import (
	"fmt"
	"sync"
	"unsafe"

	"github.com/colligo-go/colligo"
)

// A Kernel is one kind of reduction on one element type. Kernels are found by Lookup and never change. The methods may be
// called from any number of goroutines. Slices are in the machine's byte order and hold whole elements. Any address will do.
type Kernel struct {
	name   string
	size   int     // bytes of an element
	align  uintptr // address multiple that the loops need, a power of two
	reduce func(dst, a, b []byte)
	weighs bool                                  // an average that multiplies before it adds
	divide func(dst, src []byte, by int)         // only of averages of integers
	scale  func(dst, src []byte, factor float64) // only of floating point types

	kind            colligo.OpKind
	real            colligo.DType // of the element, or of the parts of a complex one
	least           int           // bytes from which on vector loops are taken, where there are any
	vector          binaryLoop
	divides, scales unaryLoop
	finish          *Kernel // the average of the same elements; nil where there is none
}

// Lookup returns the kernel of kind k on elements of type d, or the error of OpKind.Check. It allocates nothing when
// there is a kernel.
func Lookup(d colligo.DType, k colligo.OpKind) (*Kernel, error) {
	if int(d) < len(table) && int(k) < len(table[d]) && table[d][k].reduce != nil {
		return &table[d][k], nil
	}
	_, _, err := k.Check(d)
	if err == nil {
		panic(fmt.Sprintf("kernels: no kernel for %v of %v", k, d))
	}
	return nil, err
}

// Name returns kind and element type, such as "sum float32".
func (k *Kernel) Name() string { return k.name }

// Reduce sets each element of dst to a op b. The three have one length; dst may be a or b, but must not overlap them
// partly. Averages and premultiplied sums reduce like the sum: Scale prepares those of floats, Finish completes those of integers.
func (k *Kernel) Reduce(dst, a, b []byte) {
	if len(a) != len(dst) || len(b) != len(dst) || len(dst)&(k.size-1) != 0 { // sizes are powers of two
		panic(fmt.Sprintf("kernels: %s of %d and %d bytes into %d bytes, elements of %d", k.name, len(a), len(b), len(dst), k.size))
	}
	if k.vector.reduce != nil && len(dst) >= k.least {
		k.vectorReduce(dst, a, b)
		return
	}
	if k.aligned(dst) && k.aligned(a) && k.aligned(b) {
		k.reduce(dst, a, b)
		return
	}
	buf := blocks.Get().(*[3]block)
	x, y, z := buf[0].bytes(), buf[1].bytes(), buf[2].bytes()
	for len(dst) > 0 {
		n := copy(y, a)
		copy(z[:n], b)
		k.reduce(x[:n], y[:n], z[:n])
		copy(dst, x[:n])
		dst, a, b = dst[n:], a[n:], b[n:]
	}
	blocks.Put(buf)
}

// Weight returns the factor by which the input of each of so many ranks is scaled before Reduce. It is 1/ranks for averages of
// floating point and complex elements, and 1 for all else. So such an average does not overflow where the inputs fit, though
// their sum may. NCCL does the same.
func (k *Kernel) Weight(ranks int) float64 {
	if k.weighs {
		return 1 / float64(ranks)
	}
	return 1
}

// Finish turns what Reduce has accumulated over all ranks into the result. The average of integers divides by ranks, which is at
// least 1, and truncates toward zero. Every other kind copies src to dst. The two have one length; dst may be src, but must not
// overlap it partly.
func (k *Kernel) Finish(dst, src []byte, ranks int) {
	k.check("finish", dst, src)
	if ranks < 1 {
		panic(fmt.Sprintf("kernels: finish of %s over %d ranks", k.name, ranks))
	}
	if k.divide == nil || ranks == 1 {
		copy(dst, src)
		return
	}
	if k.vectorDivide(dst, src, ranks) {
		return
	}
	if k.aligned(dst) && k.aligned(src) {
		k.divide(dst, src, ranks)
		return
	}
	inBlocks(dst, src, func(b []byte) { k.divide(b, b, ranks) })
}

// Scale sets each element of dst to that of src times factor, which is first rounded to the element type, as NCCL and
// PyTorch do. It panics unless the elements are floating point or complex. The two have one length; dst may be src,
// but must not overlap it partly.
func (k *Kernel) Scale(dst, src []byte, factor float64) {
	k.check("scale", dst, src)
	if k.scale == nil {
		panic("kernels: scale of " + k.name + ", which is not floating point")
	}
	if k.vectorScale(dst, src, factor) {
		return
	}
	if k.aligned(dst) && k.aligned(src) {
		k.scale(dst, src, factor)
		return
	}
	inBlocks(dst, src, func(b []byte) { k.scale(b, b, factor) })
}

func (k *Kernel) check(what string, dst, src []byte) {
	if len(src) != len(dst) || len(dst)%k.size != 0 {
		panic(fmt.Sprintf("kernels: %s of %s from %d bytes into %d bytes, elements of %d", what, k.name, len(src), len(dst), k.size))
	}
}

func (k *Kernel) aligned(b []byte) bool {
	return uintptr(unsafe.Pointer(unsafe.SliceData(b)))&(k.align-1) == 0
}

// inBlocks passes src through aligned memory to dst, changed by f on the way.
func inBlocks(dst, src []byte, f func([]byte)) {
	buf := blocks.Get().(*[3]block)
	for len(dst) > 0 {
		n := copy(buf[0].bytes(), src)
		f(buf[0].bytes()[:n])
		copy(dst, buf[0].bytes()[:n])
		dst, src = dst[n:], src[n:]
	}
	blocks.Put(buf)
}

// A block is aligned memory for operands that are not; three of them fit the first level cache. Its size is a multiple
// of every element's.
type block [512]uint64

func (b *block) bytes() []byte { return view[byte](b[:], len(b)*8) }

var blocks = sync.Pool{New: func() any { return new([3]block) }}

// view returns the memory at the start of s as n elements of type T.
func view[T, S any](s []S, n int) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(s))), n)
}

// views returns operands of one length as elements of type T. One n for all lets the compiler drop the bounds checks of
// loops over one of them.
func views[T any](dst, a, b []byte) (d, x, y []T) {
	var t T
	n := len(dst) / int(unsafe.Sizeof(t))
	return view[T](dst, n), view[T](a, n), view[T](b, n)
}

// pair views two slices of bytes as elements.
func pair[T any](dst, src []byte) (d, x []T) {
	var t T
	n := len(dst) / int(unsafe.Sizeof(t))
	return view[T](dst, n), view[T](src, n)
}
