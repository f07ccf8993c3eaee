// The reducing collectives by tiles: compiled for each element type and kind, with ELEMENT, OP and WORD set.
#include "fold.h"
#include "tiles.h"

// foldTile folds the incoming tiles j of phase 0 and the bytes of user memory at mine, and stores the result at out, and
// with push as tile j of phase 1 at every peer. slots is shared memory for the tiles' addresses.
template <bool push> DEVICE void foldTile(Tiles &t, u64 (&slots)[maxRanks], u64 out, u64 mine, u32 j, u64 bytes, u32 divisor) {
	const GroupArgs &g = t.g;
	if (thread() < g.size && thread() != g.rank) slots[thread()] = t.incoming(0, placeOf(g, thread()), j);
	sync();
	u64 lines = linesOf(bytes), step = threads();
	auto store = [&](u64 i, Line sum) {
		writeUser(out + 16 * i, sum, bytes - 16 * i);
		if constexpr (push) {
#pragma unroll 1
			for (u32 d = 1; d < g.size; d++) storeLine(t.outgoing(1, d, j) + 16 * i, sum);
		}
	};
	if constexpr (unrolled) {
		constexpr u32 U = 2; // lines that are loaded before one is folded
		for (u64 i = thread(); i < lines; i += U * step) {
			Line v[U][maxRanks], own[U];
#pragma unroll
			for (u32 u = 0; u < U; u++) {
				u64 at = 16 * (i + u * step);
				if (at >= bytes) continue;
				own[u] = readUser(mine + at, bytes - at);
#pragma unroll
				for (u32 q = 0; q < maxRanks; q++)
					if (q < g.size && q != g.rank) v[u][q] = streamLine(slots[q] + at);
			}
#pragma unroll
			for (u32 u = 0; u < U; u++) {
				if (i + u * step >= lines) continue;
				Whole s;
#pragma unroll
				for (u32 q = 0; q < maxRanks; q++)
					if (q < g.size) {
						Line from = q == g.rank ? own[u] : v[u][q];
						if (q == 0) s.open(from);
						else s.fold(from);
					}
				store(i + u * step, s.close(divisor));
			}
		}
	} else {
		for (u64 i = thread(); i < lines; i += step) {
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

// all_reduce_tiles: the two-shot all-reduce by tiles. In step j a block pushes its tile j of every part to the part's
// owner, folds and spreads tile j-1 of its own part, and takes home tile j-2 of the others.
KERNEL void all_reduce_tiles(AllReduceArgs a) {
	SHARED Tiles::Store store;
	SHARED Turned slots;
	const GroupArgs &g = a.group;
	Tiles t(g, store);
	u32 tile = a.tile, n = tilesOf(a.part, tile);
	auto count = [n](u32) { return n; };
	auto start = [&](u32 d, u32 j) { return peerAt(g, d) * a.part + tileAt(j, tile); };
	auto length = [&](u32 d, u32 j) { return within(start(d, j), smaller(tile, a.part - tileAt(j, tile)), a.bytes); };
	for (u32 j = 0; n != 0 && j < n + 2; j++) {
		if (j < n) {
			t.push(0, j, tile, [&](u32 d) { return a.in + start(d, j); }, [&](u32 d) { return length(d, j); });
			t.signal(0, j, count);
		}
		if (j >= 1 && j - 1 < n) {
			t.wait(0, j - 1, count);
			foldTile<true>(t, slots.at, a.out + start(0, j - 1), a.in + start(0, j - 1), j - 1, length(0, j - 1), a.divisor);
			t.signal(1, j - 1, count);
		}
		if (j >= 2) {
			t.wait(1, j - 2, count);
			t.pull(1, j - 2, tile, [&](u32 d) { return a.out + start(d, j - 2); }, [&](u32 d) { return length(d, j - 2); });
		}
	}
	t.finish(count);
}

// reduce_scatter_tiles: the first half of it, with parts of any length. In a pair both ranks count as many tiles as the
// longer of the two parts has.
KERNEL void reduce_scatter_tiles(ReduceScatterArgs a) {
	SHARED Tiles::Store store;
	SHARED Turned offset, bytes, slots;
	const GroupArgs &g = a.group;
	offset.fill(a.offset);
	bytes.fill(a.bytes);
	Tiles t(g, store);
	u32 tile = a.tile, most = 0, own = tilesOf(bytes.at[0], tile);
	auto count = [&](u32 d) { return d == 0 ? 0 : tilesOf(larger(bytes.at[d], bytes.at[0]), tile); };
	for (u32 d = 1; d < g.size; d++) most = (u32)larger(most, count(d));
	for (u32 j = 0; most != 0 && j < most + 1; j++) {
		if (j < most) {
			u64 at = tileAt(j, tile);
			t.push(0, j, tile, [&](u32 d) { return a.in + offset.at[d] + at; }, [&](u32 d) { return within(at, tile, bytes.at[d]); });
			t.signal(0, j, count);
		}
		if (j >= 1) {
			t.wait(0, j - 1, count);
			u64 at = tileAt(j - 1, tile);
			if (j - 1 < own) foldTile<false>(t, slots.at, a.out + at, a.in + offset.at[0] + at, j - 1, within(at, tile, bytes.at[0]), a.divisor);
		}
	}
	t.finish(count);
}
