// The reducing collectives by tiles. The file is compiled for each element type and kind, with ELEMENT, OP and WORD set.
#include "foldtile.h"
#include "team.h"

// spread stores a line of the result at every peer, as line i of tile j of phase 1.
DEVICE void spread(Tiles &t, u32 j, u64 i, Line sum) {
#pragma unroll 1
	for (u32 d = 1; d < t.g.size; d++) storeLine(t.outgoing(1, d, j) + 16 * i, sum);
}

// all_reduce_tiles is a reduce-scatter and an all-gather in one operation. In step j:
//   1. Push tile j of every part to the part's owner.
//   2. Wait for the peers' tiles j-1 of the own part, fold them, spread the result and keep it.
//   3. Announce the tiles of 1. and 2. at once.
//   4. Wait for tile j-2 of the other parts' results, and copy it to the output.
KERNEL void all_reduce_tiles(AllReduceArgs a) {
	SHARED Tiles::Store store;
	SHARED ByPeerIndex slots;
	const GroupArgs &g = a.group;
	Tiles t(g, store);
	if (!t.begins) return;
	u32 tile = a.tile, n = tilesOf(a.part, tile);
	auto count = [n](u32) { return n; };
	auto start = [&](u32 d, u32 j) { return peerAt(g, d) * a.part + tileAt(j, tile); };
	auto length = [&](u32 d, u32 j) { return within(start(d, j), smaller(tile, a.part - tileAt(j, tile)), a.bytes); };
	for (u32 j = 0; n != 0 && j < n + 2; j++) {
		// 1.
		if (j < n) t.push(0, j, tile, [&](u32 d) { return a.in + start(d, j); }, [&](u32 d) { return length(d, j); });
		if (j >= 1 && j - 1 < n) { // 2.
			t.wait(0, j - 1, count);
			if (!t.on()) break;
			u64 at = start(0, j - 1), bytes = length(0, j - 1);
			foldTile(t, slots.at, a.in + at, j - 1, bytes, a.divisor, [&](u64 i, Line sum) {
				writeUser(a.out + at + 16 * i, sum, bytes - 16 * i);
				spread(t, j - 1, i, sum);
			});
		}
		if (j <= n) t.signalBoth(j, count); // 3.
		if (j >= 2) { // 4.
			t.wait(1, j - 2, count);
			t.pull(1, j - 2, tile, [&](u32 d) { return a.out + start(d, j - 2); }, [&](u32 d) { return length(d, j - 2); });
		}
	}
	t.finish(count);
}

// reduce_scatter_tiles is the first half of all_reduce_tiles, with parts of any length. In a pair both ranks count as many tiles as the
// longer of the two parts has. One half of a block pushes and the other half folds, so that some warps store at any time.
//
// Why a slot is free. The team that pushes tile j has seen its own block fold tile j-2. So every peer had sent its tile j-2, after it
// had folded tile j-4, whose slot tile j takes. The argument of tiles.h about the end of an operation and the begin of the next
// holds here, too. The folding team sets broken when it was aborted, before it counts the tile. So the pushing team
// neither pushes nor announces what follows.
//   The pushing team, for each tile:
//   1. Wait until the own block has folded tile j-2.
//   2. Push tile j of every part to the part's owner.
//   3. Announce it.
//   The folding team, for each tile:
//   4. Wait for tile j of every peer.
//   5. Fold the own part's tile j and write the result.
KERNEL_OF(512, 1) void reduce_scatter_tiles(ReduceScatterArgs a) {
	SHARED Tiles::Store store;
	SHARED ByPeerIndex offset, bytes, slots[2]; // slots of even tiles and of odd ones
	SHARED u32 movedCounts[2];
	const GroupArgs &g = a.group;
	offset.fill(a.offset);
	bytes.fill(a.bytes);
	if (thread() < 2) movedCounts[thread()] = 0;
	Tiles t(g, store);
	if (!t.begins) return;
	u32 tile = a.tile, most = 0, own = tilesOf(bytes.at[0], tile), half = threads() / 64 * 32;
	auto count = [&](u32 d) { return d == 0 ? 0 : tilesOf(larger(bytes.at[d], bytes.at[0]), tile); };
	auto peer = [&](u32 d, u32 j) { return d != 0 && d < g.size && j < count(d); };
	for (u32 d = 1; d < g.size; d++) most = (u32)larger(most, count(d));
	if (thread() < half) {
		Team team{thread(), half, 1, movedCounts[0], maxRanks};
		team.run(
			most,
			[&](u32 j, u32 d) {
				// 1.
				while (d == 0 && j >= 2 && loadShared(movedCounts[1]) < j - 1);
			},
			[](u32, u32, u32) {},
			[&](u32 j, u32 first, u32 step) {
				if (!t.on()) return;
				u64 at = tileAt(j, tile); // 2.
				t.push(0, j, tile, [&](u32 d) { return a.in + offset.at[d] + at; }, [&](u32 d) { return within(at, tile, bytes.at[d]); }, first, step);
			},
			[&](u32 j, u32 d) {
				if (!peer(d, j) || !t.on()) return; // 3.
				if (j == 0) postWord(wordOf(t, 1, d), t.base[d]);
				post(t, 0, d, j + 1);
			});
	} else {
		Team team{thread() - half, threads() - half, 4, movedCounts[1], maxRanks};
		team.run(
			most,
			[&](u32 j, u32 d) {
				if (!peer(d, j)) return; // 4.
				reach(t, 0, d, j + 1);
				slots[j % 2].at[peerAt(g, d)] = t.incoming(0, d, j);
			},
			[](u32, u32, u32) {},
			[&](u32 j, u32 first, u32 step) {
				if (j >= own) return; // 5.
				u64 at = tileAt(j, tile), n = within(at, tile, bytes.at[0]);
				foldSlots(g, slots[j % 2].at, a.in + offset.at[0] + at, n, a.divisor, first, step,
						  [&](u64 i, Line sum) { writeUser(a.out + at + 16 * i, sum, n - 16 * i); });
			},
			[](u32, u32) {});
	}
	t.finish(count);
}
