package colligo

import "fmt"

// DType is the type of a tensor's elements. The zero value is not a type.
type DType uint8

// The element types. Their names are PyTorch's; String prints them, ParseDType reads them.
const (
	Uint8 DType = iota + 1
	Int8
	Int16
	Int32
	Int64
	Uint32
	Uint64
	Float16
	BFloat16
	Float32
	Float64
	Float8E4M3FN // 4 exponent bits, 3 mantissa bits, no infinities, one NaN (OCP 8-bit floating point, 2023)
	Float8E5M2   // 5 exponent bits, 2 mantissa bits, IEEE infinities and NaNs (OCP 8-bit floating point, 2023)
	Bool         // one byte, 0 or 1
	Complex64
	Complex128
	numDTypes
)

// dtypes lists name and size of each element type, in bytes.
var dtypes = [numDTypes]struct {
	name string
	size int
}{
	Uint8: {"uint8", 1}, Int8: {"int8", 1}, Int16: {"int16", 2}, Int32: {"int32", 4}, Int64: {"int64", 8},
	Uint32: {"uint32", 4}, Uint64: {"uint64", 8}, Float16: {"float16", 2}, BFloat16: {"bfloat16", 2},
	Float32: {"float32", 4}, Float64: {"float64", 8}, Float8E4M3FN: {"float8_e4m3fn", 1},
	Float8E5M2: {"float8_e5m2", 1}, Bool: {"bool", 1}, Complex64: {"complex64", 8}, Complex128: {"complex128", 16},
}

// DTypes returns every element type, in the order of the constants.
func DTypes() []DType {
	all := make([]DType, 0, numDTypes-1)
	for d := Uint8; d < numDTypes; d++ {
		all = append(all, d)
	}
	return all
}

// Valid reports whether d is one of the constants.
func (d DType) Valid() bool { return d > 0 && d < numDTypes }

// Size returns the bytes of one element, 0 for an invalid type.
func (d DType) Size() int {
	if !d.Valid() {
		return 0
	}
	return dtypes[d].size
}

// String returns PyTorch's name of the type, such as "float32".
func (d DType) String() string {
	if !d.Valid() {
		return fmt.Sprintf("dtype(%d)", uint8(d))
	}
	return dtypes[d].name
}

// Float reports whether the type is a real floating point type of any width.
func (d DType) Float() bool {
	switch d {
	case Float16, BFloat16, Float32, Float64, Float8E4M3FN, Float8E5M2:
		return true
	}
	return false
}

// Complex reports whether elements are pairs of real numbers.
func (d DType) Complex() bool { return d == Complex64 || d == Complex128 }

// Integer reports whether the type is a signed or unsigned integer; bool is not.
func (d DType) Integer() bool { return d.Valid() && !d.Float() && !d.Complex() && d != Bool }

// Real returns the type of the real and imaginary part of a complex type, and any other type itself.
func (d DType) Real() DType {
	switch d {
	case Complex64:
		return Float32
	case Complex128:
		return Float64
	}
	return d
}

// ParseDType reads a name that String prints, or one of the short forms f16 bf16 f32 f64 half float double.
func ParseDType(s string) (DType, error) {
	switch s {
	case "half", "f16":
		return Float16, nil
	case "bf16":
		return BFloat16, nil
	case "float", "f32":
		return Float32, nil
	case "double", "f64":
		return Float64, nil
	}
	for d := Uint8; d < numDTypes; d++ {
		if dtypes[d].name == s {
			return d, nil
		}
	}
	return 0, fmt.Errorf("colligo: unknown element type %q", s)
}
