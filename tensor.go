package colligo

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"unsafe"
)

// Element is the Go types that map to one element type. Types without a Go twin (float16, bfloat16, float8) are made
// with Raw or FromBits over their bit patterns.
type Element interface {
	~uint8 | ~int8 | ~int16 | ~int32 | ~int64 | ~uint32 | ~uint64 | ~int | ~float32 | ~float64 | ~bool |
		~complex64 | ~complex128
}

// Tensor is a view of elements: device, address, element type, shape, strides. It owns nothing. The zero value is
// invalid; make one with Of, FromBits, Raw or OnDevice. Tensors are small values, copied freely.
//
// A Tensor has 40 bytes, for every operation keeps two of them.
type Tensor struct {
	mem    unsafe.Pointer // on the CPU, keeps Go memory alive
	addr   uintptr        // on a device
	count  int
	layout *layout // nil for one contiguous dimension
	index  int32   // of the device
	kind   DeviceKind
	dtype  DType
}

// layout is the shape of a tensor that has not one dimension, and its strides. It is never changed once a tensor has it.
type layout struct {
	shape   []int
	strides []int // in elements; nil when contiguous
}

// Of views a slice as a contiguous tensor of the given shape, or of one dimension when shape is left out. The product
// of the shape must be the slice's length. Elements of type int are int64 on 64-bit machines, int32 on others.
func Of[T Element](s []T, shape ...int) Tensor {
	return fromMemory(unsafe.Pointer(unsafe.SliceData(s)), len(s), dtypeOf[T](), shape)
}

// FromBits views 8- or 16-bit patterns as elements of type d, which must have the patterns' size: float16 and bfloat16
// over uint16, float8 over uint8.
func FromBits[T ~uint8 | ~uint16](s []T, d DType, shape ...int) Tensor {
	var t T
	if d.Size() != int(unsafe.Sizeof(t)) {
		panic(fmt.Sprintf("colligo: FromBits: %v has %d bytes, the slice's elements have %d", d, d.Size(), unsafe.Sizeof(t)))
	}
	return fromMemory(unsafe.Pointer(unsafe.SliceData(s)), len(s), d, shape)
}

// Bytes views raw bytes as elements of type d. The length must be a multiple of the element size and the address a
// multiple of its alignment.
func Bytes(b []byte, d DType, shape ...int) Tensor {
	if !d.Valid() || len(b)%d.Size() != 0 {
		panic(fmt.Sprintf("colligo: Bytes: %d bytes are not a whole number of %v elements", len(b), d))
	}
	return fromMemory(unsafe.Pointer(unsafe.SliceData(b)), len(b)/d.Size(), d, shape)
}

// Raw views memory that Go does not manage (mapped or allocated elsewhere) as count elements of type d. The memory must
// stay valid while the tensor is in use.
func Raw(p unsafe.Pointer, count int, d DType, shape ...int) Tensor {
	return fromMemory(p, count, d, shape)
}

// OnDevice views count elements of type d at an address of a device's memory, which must stay allocated while the tensor
// is in use.
func OnDevice(dev Device, addr uintptr, count int, d DType, shape ...int) Tensor {
	if dev.Kind == CPU {
		panic("colligo: OnDevice: the device is the CPU; use Of, Bytes or Raw")
	}
	if dev.Index != int(int32(dev.Index)) {
		panic(fmt.Sprintf("colligo: OnDevice: there is no device %v", dev))
	}
	return Tensor{addr: addr, kind: dev.Kind, index: int32(dev.Index), dtype: d, count: count, layout: layoutOf(count, d, shape)}
}

func fromMemory(p unsafe.Pointer, count int, d DType, shape []int) Tensor {
	return Tensor{mem: p, dtype: d, count: count, layout: layoutOf(count, d, shape)}
}

// layoutOf returns the layout of so many contiguous elements of a shape, and checks all three.
func layoutOf(count int, d DType, shape []int) *layout {
	if !d.Valid() || count < 0 {
		panic(fmt.Sprintf("colligo: tensor of %d elements of %v", count, d))
	}
	if len(shape) == 0 {
		return nil
	}
	if product(shape) != count {
		panic(fmt.Sprintf("colligo: shape %v has %d elements, the memory has %d", shape, product(shape), count))
	}
	return &layout{shape: append([]int(nil), shape...)}
}

func product(shape []int) int {
	n := 1
	for _, d := range shape {
		if d < 0 {
			panic(fmt.Sprintf("colligo: negative dimension in shape %v", shape))
		}
		if d > 0 && n > math.MaxInt/d {
			panic(fmt.Sprintf("colligo: shape %v has more elements than an int can count", shape))
		}
		n *= d
	}
	return n
}

// Strided returns a view of the same memory with another shape and other strides, in elements, all at least 0. The view
// starts at element offset of t, which must be contiguous. Every element of the view must lie inside t.
func (t Tensor) Strided(offset int, shape, strides []int) Tensor {
	if len(shape) != len(strides) {
		panic(fmt.Sprintf("colligo: shape %v and strides %v differ in length", shape, strides))
	}
	for _, s := range strides {
		if s < 0 {
			panic(fmt.Sprintf("colligo: negative stride in %v", strides))
		}
	}
	n := product(shape)
	if !t.Contiguous() || !t.holds(offset, n, shape, strides) {
		panic(fmt.Sprintf("colligo: view offset %d shape %v strides %v leaves the %d elements of its base", offset, shape, strides, t.count))
	}
	v := t.at(offset, n)
	v.layout = &layout{shape: append([]int{}, shape...)}
	if n > 0 && !contiguous(shape, strides) {
		v.layout.strides = append([]int{}, strides...)
	}
	return v
}

// holds reports whether the n elements of a view lie inside t. Each stride is held against what is left of t before it
// is multiplied, so that nothing overflows.
func (t Tensor) holds(offset, n int, shape, strides []int) bool {
	if offset < 0 || offset > t.count {
		return false
	}
	if n == 0 {
		return true
	}
	last := offset
	for i, d := range shape {
		if d > 1 && strides[i] > (t.count-1-last)/(d-1) {
			return false
		}
		last += (d - 1) * strides[i]
	}
	return last < t.count
}

// Slice returns elements [from, to) of a contiguous tensor as one dimension.
func (t Tensor) Slice(from, to int) Tensor {
	if !t.Contiguous() || from < 0 || to < from || to > t.count {
		panic(fmt.Sprintf("colligo: elements [%d:%d) of %v", from, to, t))
	}
	v := t.at(from, to-from)
	v.layout = nil
	return v
}

// at returns n elements from offset on. An empty view keeps its base's address: one past the end of an allocation is
// none of Go's valid pointers.
func (t Tensor) at(offset, n int) Tensor {
	t.count = n
	if n == 0 {
		return t
	}
	bytes := offset * t.dtype.Size()
	if t.kind == CPU {
		t.mem = unsafe.Add(t.mem, bytes)
	} else {
		t.addr += uintptr(bytes)
	}
	return t
}

func contiguous(shape, strides []int) bool {
	want := 1
	for i := len(shape) - 1; i >= 0; i-- {
		if shape[i] != 1 && strides[i] != want {
			return false
		}
		want *= shape[i]
	}
	return true
}

// Valid reports whether t was made by a constructor.
func (t Tensor) Valid() bool { return t.dtype.Valid() }

// DType returns the element type.
func (t Tensor) DType() DType { return t.dtype }

// Device returns where the elements lie.
func (t Tensor) Device() Device { return Device{t.kind, int(t.index)} }

// Len returns the number of elements.
func (t Tensor) Len() int { return t.count }

// Size returns the bytes of the elements, gaps of strided views not counted.
func (t Tensor) Size() int { return t.count * t.dtype.Size() }

// Contiguous reports whether the elements follow one another in row-major order without gaps.
func (t Tensor) Contiguous() bool { return t.layout == nil || t.layout.strides == nil }

// Shape returns the dimensions, outermost first. The slice must not be changed.
func (t Tensor) Shape() []int {
	if t.layout == nil {
		return []int{t.count}
	}
	return t.layout.shape
}

// Strides returns the distance between neighbours of each dimension, in elements. The slice must not be changed.
func (t Tensor) Strides() []int {
	if !t.Contiguous() {
		return t.layout.strides
	}
	shape := t.Shape()
	strides, n := make([]int, len(shape)), 1
	for i := len(shape) - 1; i >= 0; i-- {
		strides[i] = n
		n *= shape[i]
	}
	return strides
}

// Pointer returns the address of the first element of a CPU tensor, nil for a device tensor.
func (t Tensor) Pointer() unsafe.Pointer { return t.mem }

// Addr returns the address of the first element as a number, on any device.
func (t Tensor) Addr() uintptr {
	if t.kind == CPU {
		return uintptr(t.mem)
	}
	return t.addr
}

// CPUBytes returns the memory of a contiguous CPU tensor. It panics for any other.
func (t Tensor) CPUBytes() []byte {
	if t.kind != CPU || t.layout != nil && t.layout.strides != nil { // a call of Contiguous would copy the tensor
		noBytes(t)
	}
	return unsafe.Slice((*byte)(t.mem), t.count*t.dtype.Size())
}

// Elements returns the elements of a contiguous CPU tensor as a slice of their Go type: the way back from Of, over the same
// memory. It panics for any other tensor, and for another type than the tensor's.
func Elements[T Element](t Tensor) []T {
	if t.kind != CPU || !t.Contiguous() || t.dtype != dtypeOf[T]() {
		panic(fmt.Sprintf("colligo: elements of %v as a slice of %v", t, reflect.TypeFor[T]()))
	}
	return unsafe.Slice((*T)(t.mem), t.count)
}

// noBytes is apart from CPUBytes, which takes less of the stack without it.
func noBytes(t Tensor) {
	panic(fmt.Sprintf("colligo: bytes of %v, which is not a contiguous CPU tensor", t))
}

// View changes the element type of a contiguous tensor without changing its memory. The bytes must be a whole number of
// elements of the new type. The result has one dimension.
func (t Tensor) View(d DType) Tensor {
	if !t.Contiguous() || !d.Valid() || t.Size()%d.Size() != 0 {
		panic(fmt.Sprintf("colligo: %v viewed as %v", t, d))
	}
	t.count, t.dtype, t.layout = t.Size()/d.Size(), d, nil
	return t
}

// String describes the tensor on one line, such as "float32[2 3] cpu".
func (t Tensor) String() string {
	if !t.Valid() {
		return "invalid tensor"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%v%v %v", t.dtype, t.Shape(), t.Device())
	if !t.Contiguous() {
		fmt.Fprintf(&b, " strides %v", t.layout.strides)
	}
	return b.String()
}

func dtypeOf[T Element]() DType {
	switch reflect.TypeFor[T]().Kind() {
	case reflect.Uint8:
		return Uint8
	case reflect.Int8:
		return Int8
	case reflect.Int16:
		return Int16
	case reflect.Int32:
		return Int32
	case reflect.Int64:
		return Int64
	case reflect.Int:
		return intDType
	case reflect.Uint32:
		return Uint32
	case reflect.Uint64:
		return Uint64
	case reflect.Float32:
		return Float32
	case reflect.Float64:
		return Float64
	case reflect.Bool:
		return Bool
	case reflect.Complex64:
		return Complex64
	}
	return Complex128
}

// intDType is the element type of Go's int on this machine.
const intDType = Int32 + DType(^uint(0)>>63)
