package kernels

import (
	"fmt"

	"github.com/colligo-go/colligo"
)

// Scalar reads a real floating point tensor of one element on the CPU.
func Scalar(t colligo.Tensor) (float64, error) {
	if t.Len() != 1 || t.Device().Kind != colligo.CPU {
		return 0, fmt.Errorf("kernels: %v is not one element on the CPU", t)
	}
	switch p := t.Pointer(); t.DType() {
	case colligo.Float32:
		return float64(*(*float32)(p)), nil
	case colligo.Float64:
		return *(*float64)(p), nil
	case colligo.Float16:
		return float64(colligo.Float16ToFloat32(*(*uint16)(p))), nil
	case colligo.BFloat16:
		return float64(colligo.BFloat16ToFloat32(*(*uint16)(p))), nil
	case colligo.Float8E4M3FN:
		return float64(colligo.Float8E4M3FNToFloat32(*(*uint8)(p))), nil
	case colligo.Float8E5M2:
		return float64(colligo.Float8E5M2ToFloat32(*(*uint8)(p))), nil
	}
	return 0, fmt.Errorf("kernels: a factor of type %v, which must be floating point", t.DType())
}
