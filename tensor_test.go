package colligo_test

import (
	"math"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
)

func TestOfMapsGoTypes(t *testing.T) {
	type celsius float32
	for want, x := range map[string]colligo.Tensor{
		"uint8[1] cpu": colligo.Of([]uint8{1}), "int8[1] cpu": colligo.Of([]int8{1}), "int16[1] cpu": colligo.Of([]int16{1}),
		"int32[1] cpu": colligo.Of([]int32{1}), "int64[1] cpu": colligo.Of([]int64{1}), "uint32[1] cpu": colligo.Of([]uint32{1}),
		"uint64[1] cpu": colligo.Of([]uint64{1}), "float32[1] cpu": colligo.Of([]celsius{1}),
		"float64[1] cpu": colligo.Of([]float64{1}), "bool[1] cpu": colligo.Of([]bool{true}),
		"complex64[1] cpu": colligo.Of([]complex64{1}), "complex128[1] cpu": colligo.Of([]complex128{1}),
		"float16[2] cpu":           colligo.FromBits([]uint16{1, 2}, colligo.Float16),
		"float8_e5m2[1 2] cpu":     colligo.FromBits([]uint8{1, 2}, colligo.Float8E5M2, 1, 2),
		"int16[3] cpu":             colligo.Bytes(make([]byte, 6), colligo.Int16),
		"float32[2 3] cpu":         colligo.Of(make([]float32, 6), 2, 3),
		"float32[0] cpu":           colligo.Of([]float32(nil)),
		"float32[0 3] cpu":         colligo.Of([]float32{}, 0, 3),
		"float32[4] cuda:1":        colligo.OnDevice(colligo.Device{Kind: colligo.CUDA, Index: 1}, 64, 4, colligo.Float32),
		"invalid tensor":           {},
		"uint8[2] cpu strides [2]": colligo.Of(make([]byte, 3)).Strided(0, []int{2}, []int{2}),
	} {
		require.Equal(t, want, x.String())
		require.Equal(t, want != "invalid tensor", x.Valid())
	}
	require.Equal(t, int(unsafe.Sizeof(int(0))), colligo.Of([]int{1}).DType().Size())
}

func TestTensorIsAView(t *testing.T) {
	s := []int32{0, 1, 2, 3, 4, 5}
	x := colligo.Of(s, 2, 3)
	require.Equal(t, 6, x.Len())
	require.Equal(t, 24, x.Size())
	require.Equal(t, []int{2, 3}, x.Shape())
	require.Equal(t, []int{3, 1}, x.Strides())
	require.Equal(t, unsafe.Pointer(&s[0]), x.Pointer())
	require.Equal(t, uintptr(unsafe.Pointer(&s[0])), x.Addr())
	x.CPUBytes()[0] = 7
	require.EqualValues(t, 7, s[0])

	v := x.Slice(2, 5)
	require.Equal(t, []int{3}, v.Shape())
	require.Equal(t, unsafe.Pointer(&s[2]), v.Pointer())
	require.Equal(t, "uint8[12] cpu", v.View(colligo.Uint8).String())

	column := x.Strided(1, []int{2, 1}, []int{3, 9})
	require.False(t, column.Contiguous())
	require.Equal(t, 2, column.Len())
	require.Equal(t, 8, column.Size())
	require.Equal(t, []int{3, 9}, column.Strides())
	require.True(t, x.Strided(3, []int{1, 3}, []int{100, 1}).Contiguous(), "the stride of a dimension of 1 says nothing")
	require.True(t, x.Strided(6, []int{0, 3}, []int{1, 5}).Contiguous(), "nothing has no gaps")
	require.Equal(t, []int{}, x.Strided(5, []int{}, []int{}).Shape())
	require.Equal(t, 4, x.Strided(0, []int{4}, []int{0}).Len(), "one element many times")
}

// A pointer one past an allocation may be the start of another, or of memory that was given back.
func TestEmptyViewStaysInsideItsBase(t *testing.T) {
	s := make([]int64, 4)
	require.Equal(t, unsafe.Pointer(&s[0]), colligo.Of(s).Slice(4, 4).Pointer())
	require.Equal(t, unsafe.Pointer(&s[0]), colligo.Of(s).Strided(4, []int{0}, []int{1}).Pointer())
}

func TestDeviceTensor(t *testing.T) {
	dev := colligo.Device{Kind: colligo.CUDA, Index: 1}
	x := colligo.OnDevice(dev, 4096, 8, colligo.Float16, 2, 4)
	require.Equal(t, dev, x.Device())
	require.Nil(t, x.Pointer())
	require.EqualValues(t, 4096, x.Addr())
	require.EqualValues(t, 4096+6, x.Slice(3, 8).Addr())
	require.Panics(t, func() { x.CPUBytes() })
}

func TestTensorMisusePanics(t *testing.T) {
	x := colligo.Of(make([]float32, 6))
	strided := x.Strided(0, []int{3}, []int{2})
	for name, misuse := range map[string]func(){
		"shape too small":      func() { colligo.Of(make([]float32, 6), 5) },
		"negative dimension":   func() { colligo.Of(make([]float32, 6), -2, -3) },
		"product overflows":    func() { colligo.Of([]float32{}, math.MaxInt, math.MaxInt) },
		"bits of another size": func() { colligo.FromBits([]uint16{1}, colligo.Float8E5M2) },
		"half an element":      func() { colligo.Bytes(make([]byte, 3), colligo.Int16) },
		"no type":              func() { colligo.Bytes(nil, 0) },
		"negative count":       func() { colligo.Raw(nil, -1, colligo.Int8) },
		"device is the CPU":    func() { colligo.OnDevice(colligo.Device{}, 1, 1, colligo.Int8) },
		"one stride missing":   func() { x.Strided(0, []int{2, 3}, []int{1}) },
		"negative stride":      func() { x.Strided(5, []int{2}, []int{-1}) },
		"negative offset":      func() { x.Strided(-1, []int{1}, []int{1}) },
		"view leaves its base": func() { x.Strided(1, []int{3, 2}, []int{2, 1}) },
		"offset at the end":    func() { x.Strided(6, []int{1}, []int{1}) },
		"empty view outside":   func() { x.Strided(7, []int{0}, []int{1}) },
		"stride overflows":     func() { x.Strided(0, []int{3}, []int{math.MaxInt}) },
		"view of a gap":        func() { strided.Strided(0, []int{1}, []int{1}) },
		"slice backwards":      func() { x.Slice(3, 2) },
		"slice beyond":         func() { x.Slice(0, 7) },
		"slice of a gap":       func() { strided.Slice(0, 1) },
		"bytes of a gap":       func() { strided.CPUBytes() },
		"view of other size":   func() { colligo.Of(make([]byte, 6)).View(colligo.Int32) },
	} {
		require.Panics(t, misuse, name)
	}
}

var sink colligo.Tensor

func TestOneDimensionAllocatesNothing(t *testing.T) {
	s, b := make([]float32, 8), make([]uint16, 8)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		sink = colligo.Of(s)
		sink = sink.Slice(2, 6)
		sink = colligo.FromBits(b, colligo.BFloat16)
	}))
}

// TestElements goes from a slice to a tensor and back.
func TestElements(t *testing.T) {
	x := []float32{1, 2, 3, 4}
	back := colligo.Elements[float32](colligo.Of(x, 2, 2))
	require.Equal(t, x, back)
	back[3] = 5
	require.Equal(t, float32(5), x[3], "the memory is the same")
	require.Equal(t, []float32{2, 3}, colligo.Elements[float32](colligo.Of(x).Slice(1, 3)))
	require.Empty(t, colligo.Elements[int64](colligo.Of([]int64(nil))))
	type celsius float64
	require.Equal(t, []celsius{20}, colligo.Elements[celsius](colligo.Of([]float64{20})))
	require.PanicsWithValue(t, "colligo: elements of float32[4] cpu as a slice of int32", func() { colligo.Elements[int32](colligo.Of(x)) })
	require.Panics(t, func() { colligo.Elements[float32](colligo.Of(x).Strided(0, []int{2}, []int{2})) })
	require.Panics(t, func() {
		colligo.Elements[float32](colligo.OnDevice(colligo.Device{Kind: colligo.CUDA}, 64, 1, colligo.Float32))
	})
	require.Panics(t, func() { colligo.Elements[float32](colligo.Tensor{}) })
}

// A tensor is kept in registers if it has no more than four words.
func TestTensorSize(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(colligo.Tensor{}), 4*unsafe.Sizeof(uintptr(0)))
}

// Tensors of one dimension are equal if all that they say is, and making one allocates nothing.
func TestFlatTensors(t *testing.T) {
	s := make([]float32, 8)
	one, other := colligo.Of(s), colligo.Of(s)
	require.True(t, one == other)
	require.True(t, colligo.Of(s) == colligo.Of(s, 2, 4).Slice(0, 8))
	require.True(t, colligo.Of(s, 8) != colligo.Of(s, 2, 4))
	require.True(t, colligo.Of(s).View(colligo.Int32) == colligo.Raw(unsafe.Pointer(&s[0]), 8, colligo.Int32))
	require.True(t, colligo.Of(s).View(colligo.Int32) != colligo.Of(s))
	for _, index := range []int{0, 1, 31} {
		on := colligo.Device{Kind: colligo.CUDA, Index: index}
		one, other := colligo.OnDevice(on, 4096, 8, colligo.Float32), colligo.OnDevice(on, 4096, 8, colligo.Float32)
		require.True(t, one == other)
		require.Zero(t, testing.AllocsPerRun(10, func() { colligo.OnDevice(on, 4096, 8, colligo.Float32).Slice(1, 3).View(colligo.Uint8) }))
	}
	require.Zero(t, testing.AllocsPerRun(10, func() { colligo.Of(s).Slice(1, 3).View(colligo.Uint8) }))
}

// Any number of devices of any kind may be there.
func TestFarDevices(t *testing.T) {
	for _, on := range []colligo.Device{{Kind: colligo.CUDA, Index: 32}, {Kind: colligo.CUDA, Index: -1}, {Kind: 9, Index: 3}} {
		x := colligo.OnDevice(on, 4096, 8, colligo.Float32)
		require.Equal(t, on, x.Device())
		require.Equal(t, on, x.View(colligo.Uint8).Device())
		require.Equal(t, []int{32}, x.View(colligo.Uint8).Shape())
		require.EqualValues(t, 4096+8, x.Slice(2, 8).Addr())
		require.Equal(t, "float32[8] "+on.String(), x.String())
	}
	zero := colligo.Tensor{}
	require.False(t, zero.Valid())
	require.Equal(t, colligo.Device{}, zero.Device())
	require.False(t, zero.DType().Valid())
	require.Zero(t, zero.Size())
	require.Zero(t, zero.Addr())
	require.True(t, zero.Contiguous())
	require.Equal(t, []int{0}, zero.Shape())
	require.Equal(t, colligo.Raw(nil, 0, colligo.Int8), zero.View(colligo.Int8))
	require.False(t, zero.Slice(0, 0).Valid())
	require.False(t, zero.Strided(0, []int{0}, []int{1}).Valid())
	require.Panics(t, func() { zero.Slice(0, 1) })
	require.Panics(t, func() { zero.Strided(0, []int{1}, []int{1}) })
}
