package kernels

import "github.com/colligo-go/colligo"

func e5m2Loops() loops {
	f := format{top: 0x7c, nan: 0x7e}
	return loops{
		sum: e5m2Sum, prod: e5m2Prod, scale: e5m2Scale,
		min: f.bind(leastBits[int8]), max: f.bind(greatestBits[int8]),
	}
}

func e5m2Sum(dst, a, b []byte) {
	d, x, y := views[uint8](dst, a, b)
	for i := range d {
		d[i] = colligo.Float8E5M2FromFloat32(colligo.Float8E5M2ToFloat32(x[i]) + colligo.Float8E5M2ToFloat32(y[i]))
	}
}

func e5m2Prod(dst, a, b []byte) {
	d, x, y := views[uint8](dst, a, b)
	for i := range d {
		d[i] = colligo.Float8E5M2FromFloat32(colligo.Float8E5M2ToFloat32(x[i]) * colligo.Float8E5M2ToFloat32(y[i]))
	}
}

func e5m2Scale(dst, src []byte, factor float64) {
	d, x := pair[uint8](dst, src)
	f := colligo.Float8E5M2ToFloat32(colligo.Float8E5M2FromFloat32(float32(factor)))
	for i := range d {
		d[i] = colligo.Float8E5M2FromFloat32(colligo.Float8E5M2ToFloat32(x[i]) * f)
	}
}
