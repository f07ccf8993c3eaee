package colligo

import "math"

// Float16FromFloat32 rounds f to the nearest float16 (IEEE 754 binary16: 5 exponent bits, 10 mantissa bits), ties to
// even. Values that round beyond 65504 become infinities. A NaN becomes the quiet NaN of its sign.
func Float16FromFloat32(f float32) uint16 {
	b := math.Float32bits(f)
	sign := b >> 16 & 0x8000
	b &= 0x7fffffff
	switch {
	case b-0x38800000 < 0x0f000000: // from 2^-14 to below 2^16; what rounds up to 2^16 becomes infinity by carry
		sign |= (b + 0xfff + b>>13&1 - 0x38000000) >> 13
	case b < 0x38800000: // subnormal, and the last place of [0.5, 1) is just the subnormal's
		sign |= math.Float32bits(math.Float32frombits(b)+0.5) - 0x3f000000
	case b > 0x7f800000:
		sign |= 0x7e00
	default:
		sign |= 0x7c00
	}
	return uint16(sign)
}

// Float16ToFloat32 returns the value of a float16 bit pattern, which float32 holds exactly.
func Float16ToFloat32(b uint16) float32 {
	m := uint32(b&0x7fff) << 13
	switch {
	case m-0x0400<<13 < 0x7800<<13:
		m += 0x38000000
	case m < 0x0400<<13: // subnormal: put a leading one before the mantissa, then take it away
		m = math.Float32bits(math.Float32frombits(m+0x38800000) - 0x1p-14)
	default:
		m += 0x70000000
	}
	return math.Float32frombits(m | uint32(b&0x8000)<<16)
}
