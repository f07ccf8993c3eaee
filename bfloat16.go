package colligo

import "math"

// BFloat16FromFloat32 rounds f to the nearest bfloat16 (the upper half of a float32: 8 exponent bits, 7 mantissa
// bits), ties to even. Values that round beyond the largest become infinities. A NaN becomes the quiet NaN of its
// sign.
func BFloat16FromFloat32(f float32) uint16 {
	b := math.Float32bits(f)
	r := b + 0x7fff + b>>16&1
	if b&0x7fffffff > 0x7f800000 {
		r = b&0x80000000 | 0x7fc00000
	}
	return uint16(r >> 16)
}

// BFloat16ToFloat32 returns the value of a bfloat16 bit pattern, which float32 holds exactly.
func BFloat16ToFloat32(b uint16) float32 { return math.Float32frombits(uint32(b) << 16) }
