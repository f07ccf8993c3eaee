package kernels

import "github.com/colligo-go/colligo"

func e4m3fnLoops() loops {
	f := format{top: 0x7e, nan: 0x7f}
	return loops{
		sum: e4m3fnSum, prod: e4m3fnProd, scale: e4m3fnScale,
		min: f.bind(leastBits[int8]), max: f.bind(greatestBits[int8]),
	}
}

func e4m3fnSum(dst, a, b []byte) {
	d, x, y := views[uint8](dst, a, b)
	for i := range d {
		d[i] = colligo.Float8E4M3FNFromFloat32(colligo.Float8E4M3FNToFloat32(x[i]) + colligo.Float8E4M3FNToFloat32(y[i]))
	}
}

func e4m3fnProd(dst, a, b []byte) {
	d, x, y := views[uint8](dst, a, b)
	for i := range d {
		d[i] = colligo.Float8E4M3FNFromFloat32(colligo.Float8E4M3FNToFloat32(x[i]) * colligo.Float8E4M3FNToFloat32(y[i]))
	}
}

func e4m3fnScale(dst, src []byte, factor float64) {
	d, x := pair[uint8](dst, src)
	f := colligo.Float8E4M3FNToFloat32(colligo.Float8E4M3FNFromFloat32(float32(factor)))
	for i := range d {
		d[i] = colligo.Float8E4M3FNFromFloat32(colligo.Float8E4M3FNToFloat32(x[i]) * f)
	}
}
