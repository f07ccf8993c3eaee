// Element types. An element is its bits (Raw); sums and products are computed as Number. The 16-bit and 8-bit floats are
// Number float, so that a reduction of many sources rounds once, at the end.
#pragma once
#include "device.h"

template <class T, class F> DEVICE T bits(F f) { return __builtin_bit_cast(T, f); }

template <class U, class S> struct Integer {
	using Raw = U;
	using Number = U;
	using Ordered = S;
	static constexpr bool isFloat = false;
	static constexpr bool unrolled = sizeof(U) > 1;
	DEVICE Number decode(Raw r) { return r; }
	DEVICE Raw encode(Number n) { return n; }
	DEVICE Number divide(Number n, u32 by) {
		if constexpr ((S)-1 < 0) return (Number)((i64)(S)n / (i64)by); // toward zero
		else return (Number)((u64)n / by);
	}
};
using I8 = Integer<u8, i8>;
using U8 = Integer<u8, u8>;
using I16 = Integer<u16, i16>;
using I32 = Integer<u32, i32>;
using U32 = Integer<u32, u32>;
using I64 = Integer<u64, i64>;
using U64 = Integer<u64, u64>;

template <class N, class S> struct Float {
	using Number = N;
	using Ordered = S;
	static constexpr bool isFloat = true;
	static constexpr bool unrolled = sizeof(S) > 1;
};

struct F32 : Float<float, i32> {
	using Raw = u32;
	static constexpr Raw infinity = 0x7f800000, nan = 0x7fc00000;
	DEVICE float decode(Raw r) { return bits<float>(r); }
	DEVICE Raw encode(float f) { return bits<u32>(f); }
};

struct F64 : Float<double, i64> {
	using Raw = u64;
	static constexpr Raw infinity = 0x7ff0000000000000, nan = 0x7ff8000000000000;
	DEVICE double decode(Raw r) { return bits<double>(r); }
	DEVICE Raw encode(double f) { return bits<u64>(f); }
};

struct F16 : Float<float, i16> {
	using Raw = u16;
	static constexpr Raw infinity = 0x7c00, nan = 0x7e00;
	DEVICE float decode(Raw r) {
		float f;
		asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(r));
		return f;
	}
	DEVICE Raw encode(float f) {
		Raw r;
		asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(f));
		return r;
	}
	DEVICE u32 encodePair(float lo, float hi) {
		u32 r;
		asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
		return r;
	}
};

struct BF16 : Float<float, i16> {
	using Raw = u16;
	static constexpr Raw infinity = 0x7f80, nan = 0x7fc0;
	DEVICE float decode(Raw r) { return bits<float>((u32)r << 16); }
	DEVICE Raw encode(float f) {
		Raw r;
		asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r) : "f"(f));
		return r;
	}
	DEVICE u32 encodePair(float lo, float hi) {
		u32 r;
		asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
		return r;
	}
};

// E5M2 is the upper half of an F16.
struct E5M2 : Float<float, i8> {
	using Raw = u8;
	static constexpr Raw infinity = 0x7c, nan = 0x7e;
	DEVICE float decode(Raw r) { return F16::decode((u16)(r << 8)); }
	DEVICE Raw encode(float f) {
		u32 b = bits<u32>(f), minus = b >> 24 & 0x80;
		b &= 0x7fffffff;
		if (b > 0x7f800000) return minus | nan;
		if (b >= 0x47800000) return minus | infinity;                                 // 2^16; what rounds up to it carries
		if (b < 0x38800000) return minus | (bits<u32>(bits<float>(b) + 0x1p7f) - 0x43000000); // subnormal
		return minus | (b + 0xfffff + (b >> 21 & 1) - 0x38000000) >> 21;
	}
};

// E4M3 has no infinities. A number that is too large becomes NaN, not the largest number.
struct E4M3 : Float<float, i8> {
	using Raw = u8;
	static constexpr Raw infinity = 0x7e, nan = 0x7f; // the largest number takes the place of infinity
	DEVICE float decode(Raw r) {
		u32 m = (u32)(r & 0x7f) << 20, minus = (u32)(r & 0x80) << 24;
		float f = bits<float>(m) * 0x1p120f; // moves the exponent, subnormals too
		return bits<float>(minus | ((r & 0x7f) == 0x7f ? 0x7fc00000 : bits<u32>(f)));
	}
	DEVICE Raw encode(float f) {
		u32 b = bits<u32>(f), minus = b >> 24 & 0x80;
		b &= 0x7fffffff;
		if (b >= 0x43f00000) return minus | nan; // 480
		if (b < 0x3c800000) return minus | (bits<u32>(bits<float>(b) + 0x1p14f) - 0x46800000);
		return minus | (b + 0x7ffff + (b >> 20 & 1) - 0x3c000000) >> 20;
	}
};
