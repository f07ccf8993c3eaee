// The fold of a tile of every rank.
#pragma once
#include "fold.h"
#include "tiles.h"

// foldLines folds lines of up to K ranks, and asks for U of each before it folds one.
template <u32 K, u32 U, class S> DEVICE void foldLines(const GroupArgs &g, u64 (&slots)[maxRanks], u64 mine, u64 bytes, u32 divisor, u32 first, u64 step, S store) {
	u64 lines = linesOf(bytes);
#pragma unroll 1
	for (u64 i = first; i < lines; i += U * step) {
		Line v[U][K], own[U];
#pragma unroll
		for (u32 u = 0; u < U; u++) {
			u64 at = 16 * (i + u * step);
			if (at >= bytes) continue;
			own[u] = readUser(mine + at, bytes - at);
#pragma unroll
			for (u32 q = 0; q < K; q++) {
				if (q >= g.size) break;
				if (q != g.rank) v[u][q] = streamLine(slots[q] + at);
			}
		}
#pragma unroll
		for (u32 u = 0; u < U; u++) {
			if (i + u * step >= lines) continue;
			Whole s;
#pragma unroll
			for (u32 q = 0; q < K; q++) {
				if (q >= g.size) break;
				Line from = q == g.rank ? own[u] : v[u][q];
				if (q == 0) s.open(from);
				else s.fold(from);
			}
			store(i + u * step, s.close(divisor));
		}
	}
}

// foldSlots folds the tiles at slots, of all other ranks, and the bytes of user memory at mine, and hands line i of the result, at
// 16·i, to store. first and step deal the lines to threads.
template <class S> DEVICE void foldSlots(const GroupArgs &g, u64 (&slots)[maxRanks], u64 mine, u64 bytes, u32 divisor, u32 first, u32 step, S store) {
	if constexpr (unrolled) {
		if (g.size <= maxRanks / 2) foldLines<maxRanks / 2, 2>(g, slots, mine, bytes, divisor, first, step, store);
		else foldLines<maxRanks, 1>(g, slots, mine, bytes, divisor, first, step, store);
	} else {
		u64 lines = linesOf(bytes);
		for (u64 i = first; i < lines; i += step) {
			Line own = readUser(mine + 16 * i, bytes - 16 * i);
			Whole s;
#pragma unroll 1
			for (u32 q = 0; q < g.size; q++) {
				Line from = q == g.rank ? own : streamLine(slots[q] + 16 * i);
				if (q == 0) s.open(from);
				else s.fold(from);
			}
			store(i, s.close(divisor));
		}
	}
}

// foldTile is foldSlots, by all threads, of the incoming tiles j of phase 0. slots is shared memory for their addresses.
template <class S> DEVICE void foldTile(Tiles &t, u64 (&slots)[maxRanks], u64 mine, u32 j, u64 bytes, u32 divisor, S store) {
	const GroupArgs &g = t.g;
	if (thread() < g.size && thread() != g.rank) slots[thread()] = t.incoming(0, placeOf(g, thread()), j);
	sync();
	foldSlots(g, slots, mine, bytes, divisor, thread(), threads(), store);
}
