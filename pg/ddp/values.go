package ddp

import (
	"fmt"

	"github.com/colligo-go/colligo"
)

// empty returns memory for n elements.
func empty(d colligo.DType, n int) colligo.Tensor { return colligo.Bytes(make([]byte, n*d.Size()), d) }

// onHost refuses what cannot be read and computed with here.
func onHost(t colligo.Tensor) error {
	if t.Device().Kind != colligo.CPU {
		return fmt.Errorf("%v is not on the CPU", t)
	}
	return known(t.DType())
}

// known refuses element types that read and write do not know.
func known(d colligo.DType) error {
	switch d {
	case colligo.Float16, colligo.BFloat16, colligo.Float32, colligo.Float64:
		return nil
	}
	return fmt.Errorf("%v is no type that this hook knows: float16, bfloat16, float32, float64", d)
}

// read returns the elements of a contiguous tensor.
func read(t colligo.Tensor) []float64 {
	out := make([]float64, t.Len())
	switch t.DType() {
	case colligo.Float64:
		copy(out, view[float64](t))
	case colligo.Float32:
		for i, v := range view[float32](t) {
			out[i] = float64(v)
		}
	case colligo.Float16:
		for i, v := range view[uint16](t) {
			out[i] = float64(colligo.Float16ToFloat32(v))
		}
	case colligo.BFloat16:
		for i, v := range view[uint16](t) {
			out[i] = float64(colligo.BFloat16ToFloat32(v))
		}
	}
	return out
}

// write rounds values to the elements of a contiguous tensor.
func write(t colligo.Tensor, values []float64) {
	switch t.DType() {
	case colligo.Float64:
		copy(view[float64](t), values)
	case colligo.Float32:
		to := view[float32](t)
		for i, v := range values {
			to[i] = float32(v)
		}
	case colligo.Float16:
		to := view[uint16](t)
		for i, v := range values {
			to[i] = colligo.Float16FromFloat32(float32(v))
		}
	case colligo.BFloat16:
		to := view[uint16](t)
		for i, v := range values {
			to[i] = colligo.BFloat16FromFloat32(float32(v))
		}
	}
}
