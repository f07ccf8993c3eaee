package kernels

import "github.com/colligo-go/colligo"

func float16Loops() loops {
	f := format{top: 0x7c00, nan: 0x7e00}
	return loops{
		sum: float16Sum, prod: float16Prod, scale: float16Scale,
		min: f.bind(leastBits[int16]), max: f.bind(greatestBits[int16]),
	}
}

func float16Sum(dst, a, b []byte) {
	d, x, y := views[uint16](dst, a, b)
	for i := range d {
		p, q := colligo.Float16ToFloat32(x[i]), colligo.Float16ToFloat32(y[i])
		d[i] = colligo.Float16FromFloat32(settled(p+q, p, q))
	}
}

func float16Prod(dst, a, b []byte) {
	d, x, y := views[uint16](dst, a, b)
	for i := range d {
		p, q := colligo.Float16ToFloat32(x[i]), colligo.Float16ToFloat32(y[i])
		d[i] = colligo.Float16FromFloat32(settled(p*q, p, q))
	}
}

func float16Scale(dst, src []byte, factor float64) {
	d, x := pair[uint16](dst, src)
	f := colligo.Float16ToFloat32(colligo.Float16FromFloat32(float32(factor)))
	for i := range d {
		p := colligo.Float16ToFloat32(x[i])
		d[i] = colligo.Float16FromFloat32(settled(p*f, p, f))
	}
}

// settled is the result r of p op q. Of two NaNs an instruction returns one by the order of its operands, which the compiler
// is free to choose. Here it is the first.
func settled(r, p, q float32) float32 {
	if r != r && q != q && p != p {
		return p
	}
	return r
}
