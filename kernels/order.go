package kernels

import (
	"math"
	"unsafe"
)

// The minimum and maximum of floating point types that Go does not compute with compare bit patterns. These are sign and
// magnitude, and no arithmetic is needed to tell which is below. The loops choose without branches, since which operand wins
// is as good as random.

// A format is what comparing patterns needs to know of a floating point type. It has the pattern of the type's infinity (of
// its largest number if it has no infinity), above which lie the NaNs. It also has the type's quiet NaN.
type format struct{ top, nan int32 }

func (f format) bind(loop func(dst, a, b []byte, f format)) func(dst, a, b []byte) {
	return func(dst, a, b []byte) { loop(dst, a, b, f) }
}

func leastBits[T int8 | int16](dst, a, b []byte, f format) {
	d, x, y := views[T](dst, a, b)
	magnitude := magnitude[T]()
	for i := range d {
		p, q := int32(x[i]), int32(y[i])
		m := p
		if order(q) < order(p) {
			m = q
		}
		if max(p&magnitude, q&magnitude) > f.top {
			m = f.nan
		}
		d[i] = T(m)
	}
}

// greatestBits is leastBits' other end.
func greatestBits[T int8 | int16](dst, a, b []byte, f format) {
	d, x, y := views[T](dst, a, b)
	magnitude := magnitude[T]()
	for i := range d {
		p, q := int32(x[i]), int32(y[i])
		m := p
		if order(q) > order(p) {
			m = q
		}
		if max(p&magnitude, q&magnitude) > f.top {
			m = f.nan
		}
		d[i] = T(m)
	}
}

// magnitude is the mask of all bits but the sign.
func magnitude[T int8 | int16]() int32 {
	var t T
	return math.MaxInt32 >> (32 - 8*unsafe.Sizeof(t))
}

// order maps patterns, their sign extended, to numbers that ascend as the values do, -0 right before +0.
func order(p int32) int32 { return p ^ p>>31&math.MaxInt32 }
