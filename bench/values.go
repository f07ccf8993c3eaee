package main

import (
	"bytes"
	"unsafe"

	"github.com/colligo-go/colligo"
)

// number is the element types that Go has.
type number interface {
	~uint8 | ~int8 | ~int16 | ~int32 | ~int64 | ~uint32 | ~uint64 | ~float32 | ~float64
}

// fill sets the elements of a contiguous CPU tensor; complex ones are pairs, numbered 2i and 2i+1.
func fill(t colligo.Tensor, f func(i int) float64) {
	t = t.View(t.DType().Real())
	switch t.DType() {
	case colligo.Uint8, colligo.Bool:
		fillNumbers(elements[uint8](t), f)
	case colligo.Int8:
		fillNumbers(elements[int8](t), f)
	case colligo.Int16:
		fillNumbers(elements[int16](t), f)
	case colligo.Int32:
		fillNumbers(elements[int32](t), f)
	case colligo.Int64:
		fillNumbers(elements[int64](t), f)
	case colligo.Uint32:
		fillNumbers(elements[uint32](t), f)
	case colligo.Uint64:
		fillNumbers(elements[uint64](t), f)
	case colligo.Float32:
		fillNumbers(elements[float32](t), f)
	case colligo.Float64:
		fillNumbers(elements[float64](t), f)
	case colligo.Float16:
		fillBits(elements[uint16](t), colligo.Float16FromFloat32, f)
	case colligo.BFloat16:
		fillBits(elements[uint16](t), colligo.BFloat16FromFloat32, f)
	case colligo.Float8E4M3FN:
		fillBits(elements[uint8](t), colligo.Float8E4M3FNFromFloat32, f)
	case colligo.Float8E5M2:
		fillBits(elements[uint8](t), colligo.Float8E5M2FromFloat32, f)
	}
}

// differing counts the elements of t that are not, bit for bit, what fill would set. Only averages need rounding, which
// is the element type's.
func differing(t colligo.Tensor, f func(i int) float64) int64 {
	const block = 1024
	real := t.View(t.DType().Real())
	want := colligo.Bytes(make([]byte, block*real.DType().Size()), real.DType())
	var wrong int64
	for from := 0; from < real.Len(); from += block {
		got := real.Slice(from, min(from+block, real.Len()))
		fill(want, func(i int) float64 { return f(from + i) })
		wrong += countDiffering(got.CPUBytes(), want.CPUBytes(), t.DType().Size())
	}
	return wrong
}

func countDiffering(got, want []byte, size int) (n int64) {
	if bytes.Equal(got, want[:len(got)]) {
		return 0
	}
	for i := 0; i < len(got); i += size {
		if !bytes.Equal(got[i:i+size], want[i:i+size]) {
			n++
		}
	}
	return n
}

// poison overwrites a contiguous CPU tensor.
func poison(t colligo.Tensor) {
	b := t.CPUBytes()
	for i := range b {
		b[i] = 0xa5
	}
}

func elements[T any](t colligo.Tensor) []T { return unsafe.Slice((*T)(t.Pointer()), t.Len()) }

func fillNumbers[T number](b []T, f func(i int) float64) {
	for i := range b {
		b[i] = T(f(i))
	}
}

func fillBits[T uint8 | uint16](b []T, round func(float32) T, f func(i int) float64) {
	for i := range b {
		b[i] = round(float32(f(i)))
	}
}
