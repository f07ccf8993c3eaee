package kernels

import "github.com/colligo-go/colligo"

func bfloat16Loops() loops {
	f := format{top: 0x7f80, nan: 0x7fc0}
	return loops{
		sum: bfloat16Sum, prod: bfloat16Prod, scale: bfloat16Scale,
		min: f.bind(leastBits[int16]), max: f.bind(greatestBits[int16]),
	}
}

func bfloat16Sum(dst, a, b []byte) {
	d, x, y := views[uint16](dst, a, b)
	for i := range d {
		p, q := colligo.BFloat16ToFloat32(x[i]), colligo.BFloat16ToFloat32(y[i])
		d[i] = colligo.BFloat16FromFloat32(settled(p+q, p, q))
	}
}

func bfloat16Prod(dst, a, b []byte) {
	d, x, y := views[uint16](dst, a, b)
	for i := range d {
		p, q := colligo.BFloat16ToFloat32(x[i]), colligo.BFloat16ToFloat32(y[i])
		d[i] = colligo.BFloat16FromFloat32(settled(p*q, p, q))
	}
}

func bfloat16Scale(dst, src []byte, factor float64) {
	d, x := pair[uint16](dst, src)
	f := colligo.BFloat16ToFloat32(colligo.BFloat16FromFloat32(float32(factor)))
	for i := range d {
		p := colligo.BFloat16ToFloat32(x[i])
		d[i] = colligo.BFloat16FromFloat32(settled(p*f, p, f))
	}
}
