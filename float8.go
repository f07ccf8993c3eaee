package colligo

import "math"

// The decoders of 8-bit patterns are one table look-up each.
var e4m3fn, e5m2 = decodeTable(decodeE4M3FN), decodeTable(decodeE5M2)

// Float8E4M3FNFromFloat32 rounds f to the nearest float8_e4m3fn, ties to even. The format has no infinities: values that
// round beyond 448, infinities among them, become NaN, as PyTorch's conversion has it (it does not saturate). The sign
// is kept, also that of NaN.
func Float8E4M3FNFromFloat32(f float32) uint8 {
	b := math.Float32bits(f)
	sign := uint8(b >> 24 & 0x80)
	b &= 0x7fffffff
	switch {
	case b >= 0x43f00000: // 480, NaN's place; what rounds up to it from below gets there by carry
		return sign | 0x7f
	case b < 0x3c800000: // 2^-6: subnormal, and the last place of [2^14, 2^15) is just the subnormal's
		return sign | uint8(math.Float32bits(math.Float32frombits(b)+0x1p14)-0x46800000)
	}
	return sign | uint8((b+0x7ffff+b>>20&1-0x3c000000)>>20)
}

// Float8E4M3FNToFloat32 returns the value of a float8_e4m3fn bit pattern, which float32 holds exactly.
func Float8E4M3FNToFloat32(b uint8) float32 { return e4m3fn[b] }

// Float8E5M2FromFloat32 rounds f to the nearest float8_e5m2, ties to even. Values that round beyond 57344 become
// infinities. A NaN becomes the quiet NaN of its sign.
func Float8E5M2FromFloat32(f float32) uint8 {
	b := math.Float32bits(f)
	sign := b >> 24 & 0x80
	b &= 0x7fffffff
	switch {
	case b-0x38800000 < 0x0f000000: // from 2^-14 to below 2^16; what rounds up to 2^16 becomes infinity by carry
		sign |= (b + 0xfffff + b>>21&1 - 0x38000000) >> 21
	case b < 0x38800000: // subnormal, and the last place of [2^7, 2^8) is just the subnormal's
		sign |= math.Float32bits(math.Float32frombits(b)+0x1p7) - 0x43000000
	case b > 0x7f800000:
		sign |= 0x7e
	default:
		sign |= 0x7c
	}
	return uint8(sign)
}

// Float8E5M2ToFloat32 returns the value of a float8_e5m2 bit pattern, which float32 holds exactly.
func Float8E5M2ToFloat32(b uint8) float32 { return e5m2[b] }

func decodeTable(decode func(uint8) float32) (t [256]float32) {
	for i := range t {
		t[i] = decode(uint8(i))
	}
	return t
}

func decodeE4M3FN(b uint8) float32 {
	sign, m := uint32(b&0x80)<<24, uint32(b&0x7f)<<20
	switch {
	case m == 0x7f<<20:
		return math.Float32frombits(sign | 0x7fc00000)
	case m < 0x08<<20: // subnormal: put a leading one before the mantissa, then take it away
		return math.Float32frombits(sign | math.Float32bits(math.Float32frombits(m+0x3c800000)-0x1p-6))
	}
	return math.Float32frombits(sign | m + 0x3c000000)
}

// decodeE5M2 uses that float8_e5m2 is the upper half of float16.
func decodeE5M2(b uint8) float32 { return Float16ToFloat32(uint16(b) << 8) }
