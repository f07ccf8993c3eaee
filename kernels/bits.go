package kernels

// The loops of this file do not care where an element ends. They run over words of eight bytes, then over the bytes that are
// left. The operands' addresses must be multiples of eight.
const wordAlign = 8

func band(dst, a, b []byte) {
	d, x, y := views[uint64](dst, a, b)
	for i := range d {
		d[i] = x[i] & y[i]
	}
	for i := len(d) * 8; i < len(dst); i++ {
		dst[i] = a[i] & b[i]
	}
}

func bor(dst, a, b []byte) {
	d, x, y := views[uint64](dst, a, b)
	for i := range d {
		d[i] = x[i] | y[i]
	}
	for i := len(d) * 8; i < len(dst); i++ {
		dst[i] = a[i] | b[i]
	}
}

func bxor(dst, a, b []byte) {
	d, x, y := views[uint64](dst, a, b)
	for i := range d {
		d[i] = x[i] ^ y[i]
	}
	for i := len(d) * 8; i < len(dst); i++ {
		dst[i] = a[i] ^ b[i]
	}
}

// boolLoops reduces bools: product and minimum are "and", sum and maximum are "or".
func boolLoops() loops {
	return loops{sum: boolOr, prod: boolAnd, min: boolAnd, max: boolOr, band: boolAnd, bor: boolOr, bxor: boolXor}
}

func boolAnd(dst, a, b []byte) {
	d, x, y := views[uint64](dst, a, b)
	for i := range d {
		d[i] = truth(x[i]) & truth(y[i])
	}
	for i := len(d) * 8; i < len(dst); i++ {
		dst[i] = byte(truth(uint64(a[i])) & truth(uint64(b[i])))
	}
}

func boolOr(dst, a, b []byte) {
	d, x, y := views[uint64](dst, a, b)
	for i := range d {
		d[i] = truth(x[i] | y[i])
	}
	for i := len(d) * 8; i < len(dst); i++ {
		dst[i] = byte(truth(uint64(a[i] | b[i])))
	}
}

func boolXor(dst, a, b []byte) {
	d, x, y := views[uint64](dst, a, b)
	for i := range d {
		d[i] = truth(x[i]) ^ truth(y[i])
	}
	for i := len(d) * 8; i < len(dst); i++ {
		dst[i] = byte(truth(uint64(a[i])) ^ truth(uint64(b[i])))
	}
}

// truth makes each byte of w that is not 0 a 1. For adding 0x7f to the lower seven bits carries into the eighth unless they
// are 0.
func truth(w uint64) uint64 {
	const low = 0x7f7f7f7f7f7f7f7f
	return (w&low + low | w) >> 7 & 0x0101010101010101
}
