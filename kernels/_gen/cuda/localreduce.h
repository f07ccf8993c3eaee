// Reduction of several sources on one device. The compiler knows K, the largest number of sources.
#pragma once
#include "fold.h"
#include "watch.h"

// isSum reports whether source k is the sum of several ranks.
DEVICE bool isSum(const ReduceArgs &a, u32 k) { return k + a.sums >= a.sources; }

// reduceElement folds the elements at offset at of all sources. It serves any alignment, and is slow.
template <class F> DEVICE void reduceElement(const ReduceArgs &a, const u64 (&in)[maxRanks], u64 at) {
	using Raw = typename F::Element::Raw;
	Weight<F> by = weightOf<F>(a.divisor);
	typename F::State s = opened<F>(elementAt<Raw>(in[0] + at), by);
#pragma unroll 1
	for (u32 k = 1; k < a.sources; k++) s = folded<F>(s, elementAt<Raw>(in[k] + at), isSum(a, k) ? (Weight<F>)1 : by);
	if constexpr (F::divides)
		if (a.divisor > 1 && a.partial == 0) s = F::divide(s, a.divisor);
	putElement<Raw>(a.out + at, F::close(s));
}

// reduceLines loads U lines of all K sources before it folds one.
template <u32 K, int U> DEVICE void reduceLines(const ReduceArgs &a, u64 head, u64 lines) {
	u64 step = workers();
	WeightOfLine by = weightOfLines(a.divisor);
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
			s.open(v[u][0], by);
#pragma unroll
			for (u32 k = 1; k < K; k++)
				if (k < 2 || k < a.sources) s.fold(v[u][k], isSum(a, k) ? (WeightOfLine)1 : by);
			storeLine(a.out + head + 16 * (i + u * step), s.close(a.partial == 0 ? a.divisor : 0));
		}
	}
}

// reduceEach reduces lines of element types whose code is too long to unroll.
DEVICE void reduceEach(const ReduceArgs &a, const u64 (&in)[maxRanks], u64 head, u64 lines) {
	WeightOfLine by = weightOfLines(a.divisor);
	for (u64 i = worker(); i < lines; i += workers()) {
		Whole s;
		s.open(streamLine(in[0] + head + 16 * i), by);
#pragma unroll 1
		for (u32 k = 1; k < a.sources; k++) s.fold(streamLine(in[k] + head + 16 * i), isSum(a, k) ? (WeightOfLine)1 : by);
		storeLine(a.out + head + 16 * i, s.close(a.partial == 0 ? a.divisor : 0));
	}
}

// reduce folds all sources into the output:
//   1. Whole lines, if all operands have the same distance to a multiple of 16.
//   2. Single elements: those before the first and after the last line, or else all.
template <u32 K, int U> DEVICE void reduce(const ReduceArgs &a, ByPeerIndex &in) {
	constexpr u64 size = sizeof(typename One::Element::Raw);
	in.fill(a.in);
	sync();
	u64 apart = 0;
	for (u32 k = 0; k < a.sources; k++) apart |= in.at[k] - a.out;
	u64 head = apart % 16 == 0 ? smaller(-a.out % 16, a.bytes) : a.bytes;
	u64 lines = (a.bytes - head) / 16, tail = head + 16 * lines;
	// 1.
	if constexpr (unrolled) reduceLines<K, U>(a, head, lines);
	else reduceEach(a, in.at, head, lines);
	u64 single = head + a.bytes - tail; // 2.
#pragma unroll 1
	for (u64 i = worker() * size; i < single; i += workers() * size) reduceElement<One>(a, in.at, i < head ? i : tail + i - head);
}
