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
// A Tensor has four words, for the compiler keeps no larger struct in registers.
type Tensor struct {
	mem   unsafe.Pointer // on the CPU, keeps Go memory alive
	addr  uintptr        // on a device
	count int
	form  *form // nil of the zero value alone
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
	return Tensor{addr: addr, count: count, form: formOf(dev, count, d, shape)}
}

func fromMemory(p unsafe.Pointer, count int, d DType, shape []int) Tensor {
	return Tensor{mem: p, count: count, form: formOf(Device{}, count, d, shape)}
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
	if !t.Valid() {
		return t
	}
	v, f := t.at(offset, n), *t.form
	f.shape, f.strides = append([]int{}, shape...), nil
	if n > 0 && !contiguous(shape, strides) {
		f.strides = append([]int{}, strides...)
	}
	v.form = &f
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
	if v.Valid() {
		v.form = flatForm(t.Device(), t.DType())
	}
	return v
}

// at returns n elements from offset on. An empty view keeps its base's address: one past the end of an allocation is
// none of Go's valid pointers.
func (t Tensor) at(offset, n int) Tensor {
	t.count = n
	if n == 0 {
		return t
	}
	bytes := offset * t.form.elem
	if t.form.device.Kind == CPU {
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
func (t Tensor) Valid() bool { return t.form != nil }

// DType returns the element type.
func (t Tensor) DType() DType {
	if t.form == nil {
		return 0
	}
	return t.form.dtype
}

// Device returns where the elements lie.
func (t Tensor) Device() Device {
	if t.form == nil {
		return Device{}
	}
	return t.form.device
}

// Len returns the number of elements.
func (t Tensor) Len() int { return t.count }

// Size returns the bytes of the elements, gaps of strided views not counted.
func (t Tensor) Size() int {
	if t.form == nil {
		return 0
	}
	return t.count * t.form.elem
}

// Contiguous reports whether the elements follow one another in row-major order without gaps.
func (t Tensor) Contiguous() bool { return t.form == nil || t.form.strides == nil }

// Shape returns the dimensions, outermost first. The slice must not be changed.
func (t Tensor) Shape() []int {
	if t.form == nil || t.form.shape == nil {
		return []int{t.count}
	}
	return t.form.shape
}

// Strides returns the distance between neighbours of each dimension, in elements. The slice must not be changed.
func (t Tensor) Strides() []int {
	if !t.Contiguous() {
		return t.form.strides
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
	if t.form == nil || t.form.device.Kind == CPU {
		return uintptr(t.mem)
	}
	return t.addr
}

// CPUBytes returns the memory of a contiguous CPU tensor. It panics for any other.
func (t Tensor) CPUBytes() []byte {
	if t.Device().Kind != CPU || !t.Contiguous() {
		noBytes(t)
	}
	return unsafe.Slice((*byte)(t.mem), t.Size())
}

// Elements returns the elements of a contiguous CPU tensor as a slice of their Go type: the way back from Of, over the same
// memory. It panics for any other tensor, and for another type than the tensor's.
func Elements[T Element](t Tensor) []T {
	if t.Device().Kind != CPU || !t.Contiguous() || t.DType() != dtypeOf[T]() {
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
	t.count, t.form = t.Size()/d.Size(), flatForm(t.Device(), d)
	return t
}

// String describes the tensor on one line, such as "float32[2 3] cpu".
func (t Tensor) String() string {
	if !t.Valid() {
		return "invalid tensor"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%v%v %v", t.DType(), t.Shape(), t.Device())
	if !t.Contiguous() {
		fmt.Fprintf(&b, " strides %v", t.form.strides)
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
