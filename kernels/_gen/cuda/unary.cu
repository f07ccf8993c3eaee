// The entry point with one source. The file is compiled for each floating point type, with ELEMENT set.
#include "args.h"
#include "elements.h"

using Raw = ELEMENT::Raw;
constexpr int perLine = 16 / sizeof(Raw);
struct Elements {
	Raw e[perLine];
};

// each applies f to every element:
//   1. Whole lines, if in and out have the same distance to a multiple of 16.
//   2. Single elements: those before the first and after the last line, or else all.
template <class F> DEVICE void each(const UnaryArgs &a, F f) {
	u64 bytes = a.count * sizeof(Raw), head = (a.in - a.out) % 16 == 0 ? smaller(-a.out % 16, bytes) : bytes;
	u64 lines = (bytes - head) / 16, tail = head + 16 * lines;
	for (u64 i = worker(); i < lines; i += workers()) { // 1.
		Elements v = bits<Elements>(streamLine(a.in + head + 16 * i));
#pragma unroll
		for (int k = 0; k < perLine; k++) v.e[k] = f(v.e[k]);
		storeLine(a.out + head + 16 * i, bits<Line>(v));
	}
	// 2.
	auto one = [&](u64 at) { putElement<Raw>(a.out + at, f(elementAt<Raw>(a.in + at))); };
#pragma unroll 1
	for (u64 i = worker() * sizeof(Raw); i < head; i += workers() * sizeof(Raw)) one(i);
#pragma unroll 1
	for (u64 i = tail + worker() * sizeof(Raw); i < bytes; i += workers() * sizeof(Raw)) one(i);
}

// scale multiplies every element by a factor. The factor is first rounded to the element type.
KERNEL void scale(UnaryArgs a) {
	Raw f = ELEMENT::encode((ELEMENT::Number)a.factor);
	if (a.factorAt != 0) f = elementAt<Raw>(a.factorAt);
	ELEMENT::Number by = ELEMENT::decode(f);
	each(a, [=](Raw r) { return ELEMENT::encode(ELEMENT::decode(r) * by); });
}
