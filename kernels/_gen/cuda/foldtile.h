// The fold of a tile of every rank.
#pragma once
#include "fold.h"
#include "tiles.h"

// foldSlots folds the tiles at slots, of all other ranks, and the bytes of user memory at mine. It passes each line of the result to
// store, with its index. first and step deal the lines to threads. For some lines and some ranks at a time:
//   1. Load the lines of the ranks.
//   2. Fold them in rank order.
//   3. When all ranks are folded, store the results.
template <class S> DEVICE void foldSlots(const GroupArgs &g, u64 (&slots)[maxRanks], u64 mine, u64 bytes, u32 divisor, u32 first, u64 step, S store) {
	constexpr u32 U = unrolled ? 2 : 1, K = unrolled ? 4 : 1; // more than 4 ranks at once do not fit into the registers
	u64 lines = linesOf(bytes);
	WeightOfLine by = weightOfLines(divisor);
#pragma unroll 1
	for (u64 i = first; i < lines; i += U * step) {
		afresh(i);
		Whole s[U];
		if constexpr (weighs)
#pragma unroll
			for (u32 u = 0; u < U; u++) s[u].clear();
#pragma unroll 1
		for (u32 q = 0; q < g.size; q += K) {
			Line v[U][K], own[U]; // 1.
#pragma unroll
			for (u32 u = 0; u < U; u++) {
				u64 at = 16 * (i + u * step);
				if (at >= bytes) continue;
				if (g.rank - q < K) own[u] = readUser(mine + at, bytes - at);
#pragma unroll
				for (u32 k = 0; k < K; k++)
					if ((k == 0 || q + k < g.size) && q + k != g.rank) v[u][k] = streamLine(slots[q + k] + at);
			}
			// 2.
#pragma unroll
			for (u32 u = 0; u < U; u++) {
#pragma unroll
				for (u32 k = 0; k < K; k++) {
					if (k != 0 && q + k >= g.size) break;
					Line from = q + k == g.rank ? own[u] : v[u][k];
					if (!weighs && k == 0 && q == 0) s[u].open(from, by);
					else s[u].fold(from, by);
				}
			}
		}
		// 3.
#pragma unroll
		for (u32 u = 0; u < U; u++)
			if (i + u * step < lines) store(i + u * step, s[u].close(divisor));
	}
}

// foldTile folds the incoming tiles j of phase 0, by all threads. The shared memory slots is for the tiles' addresses.
template <class S> DEVICE void foldTile(Tiles &t, u64 (&slots)[maxRanks], u64 mine, u32 j, u64 bytes, u32 divisor, S store) {
	const GroupArgs &g = t.g;
	if (thread() < g.size && thread() != g.rank) slots[thread()] = t.incoming(0, peerIndexOf(g, thread()), j);
	sync();
	foldSlots(g, slots, mine, bytes, divisor, thread(), threads(), store);
}
