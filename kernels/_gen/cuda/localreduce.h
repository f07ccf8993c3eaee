// Reduce of several sources on one device: K sources known to the compiler, or up to K.
#pragma once
#include "fold.h"
#include "watch.h"

// reduceElement folds the elements that lie at bytes into their sources: the slow way around alignment.
template <class F> DEVICE void reduceElement(const ReduceArgs &a, const u64 (&in)[maxRanks], u64 at) {
	using Raw = typename F::Element::Raw;
	typename F::State s = F::open(elementAt<Raw>(in[0] + at));
#pragma unroll 1
	for (u32 k = 1; k < a.sources; k++) s = F::fold(s, elementAt<Raw>(in[k] + at));
	if constexpr (F::averages)
		if (a.divisor > 1) s = F::divide(s, a.divisor);
	putElement<Raw>(a.out + at, F::close(s));
}

// reduceLines asks for U lines of all K sources before it folds any.
template <u32 K, int U> DEVICE void reduceLines(const ReduceArgs &a, u64 head, u64 lines) {
	u64 step = workers();
	for (u64 i = worker(); i < lines; i += U * step) {
		Line v[U][K];
#pragma unroll
		for (int u = 0; u < U; u++)
#pragma unroll
			for (u32 k = 0; k < K; k++)
				if (i + u * step < lines && (k < 2 || k < a.sources)) v[u][k] = streamLine(a.in[k] + head + 16 * (i + u * step));
#pragma unroll
		for (int u = 0; u < U; u++) {
			if (i + u * step >= lines) continue;
			Whole s;
			s.open(v[u][0]);
#pragma unroll
			for (u32 k = 1; k < K; k++)
				if (k < 2 || k < a.sources) s.fold(v[u][k]);
			storeLine(a.out + head + 16 * (i + u * step), s.close(a.divisor));
		}
	}
}

// reduceEach is reduceLines for types whose code is too long to repeat.
DEVICE void reduceEach(const ReduceArgs &a, const u64 (&in)[maxRanks], u64 head, u64 lines) {
	for (u64 i = worker(); i < lines; i += workers()) {
		Whole s;
		s.open(streamLine(in[0] + head + 16 * i));
#pragma unroll 1
		for (u32 k = 1; k < a.sources; k++) s.fold(streamLine(in[k] + head + 16 * i));
		storeLine(a.out + head + 16 * i, s.close(a.divisor));
	}
}

// reduce goes by lines where all operands are equally far from a multiple of 16, with single elements before the first
// and after the last line; else by elements.
template <u32 K, int U> DEVICE void reduce(const ReduceArgs &a, ByPeerIndex &in) {
	constexpr u64 size = sizeof(typename One::Element::Raw);
	in.fill(a.in);
	sync();
	u64 apart = 0;
	for (u32 k = 0; k < a.sources; k++) apart |= in.at[k] - a.out;
	u64 head = apart % 16 == 0 ? smaller(-a.out % 16, a.bytes) : a.bytes;
	u64 lines = (a.bytes - head) / 16, tail = head + 16 * lines;
	if constexpr (unrolled) reduceLines<K, U>(a, head, lines);
	else reduceEach(a, in.at, head, lines);
	u64 single = head + a.bytes - tail;
#pragma unroll 1
	for (u64 i = worker() * size; i < single; i += workers() * size) reduceElement<One>(a, in.at, i < head ? i : tail + i - head);
}
