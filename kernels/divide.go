package kernels

import "math/bits"

// Integers are divided by a constant as by multiplying with its reciprocal (Granlund and Montgomery, "Division by invariant
// integers using multiplication", 1994). The error of the reciprocal, times the largest magnitude, is less than what would
// change a quotient.

// reciprocal8 is the number whose product with a byte has the quotient above its lowest 16 bits. The divisor is from 2 to 256.
func reciprocal8(by uint32) uint64 { return uint64(1<<16/by + 1) }

// reciprocal32 returns the number whose product with a magnitude of at most 2^31 has the quotient above its lowest shift bits.
// The divisor is from 2 to 2^31.
func reciprocal32(by uint32) (x, shift uint64) {
	log := bits.Len32(by - 1)
	return 1<<(31+log)/uint64(by) + 1, uint64(31 + log)
}

// reciprocal64 returns the number whose product with a magnitude of at most 2^63 has the quotient above its lowest 64+shift
// bits. The divisor is from 2 to 2^63.
func reciprocal64(by uint64) (x uint64, shift int) {
	log := bits.Len64(by - 1)
	x, _ = bits.Div64(1<<(log-1), 0, by)
	return x + 1, log - 1
}

// divideInt64 does not divide, which is slow, but multiplies.
func divideInt64(dst, src []byte, by int) {
	d, x := pair[int64](dst, src)
	reciprocal, shift := reciprocal64(uint64(by))
	for i := range d {
		sign := x[i] >> 63
		high, _ := bits.Mul64(uint64(x[i]^sign)-uint64(sign), reciprocal)
		d[i] = int64(high>>shift) ^ sign - sign
	}
}
