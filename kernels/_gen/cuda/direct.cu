// All-reduce by tiles into the peers' outputs. The file is compiled for each element type and kind, with ELEMENT, OP and WORD set.
#include "direct.h"
#include "foldtile.h"

// all_reduce_direct needs outputs at multiples of 16 on every rank. In step j:
//   1. Push tile j of every part to the part's owner.
//   2. Step 0: post the mark, and announce the tile.
//   3. Wait for the peers' tiles j-1 of the own part. In step 1 compare the marks.
//   4. Fold tile j-1, and store the result in every rank's output.
//   5. Announce the tile of 1. and the result of 4. at once.
//   At the end:
//   6. Wait for the last result of every peer.
KERNEL void all_reduce_direct(DirectArgs a) {
	SHARED Tiles::Store store;
	SHARED ByPeerIndex slots, outs;
	const GroupArgs &g = a.group;
	outs.fill(a.outs);
	Tiles t(g, store);
	if (!t.begins) return;
	Marks marks{a.marks, a.mark};
	u32 tile = a.tile, n = tilesOf(a.part, tile);
	auto count = [n](u32) { return n; };
	auto start = [&](u32 d, u32 j) { return peerAt(g, d) * a.part + tileAt(j, tile); };
	auto length = [&](u32 d, u32 j) { return within(start(d, j), smaller(tile, a.part - tileAt(j, tile)), a.bytes); };
	for (u32 j = 0; n != 0 && j < n + 1; j++) {
		if (j < n) { // 1.
			t.push(0, j, tile, [&](u32 d) { return a.in + start(d, j); }, [&](u32 d) { return length(d, j); });
		}
		if (j == 0) { // 2.
			marks.tell(t);
			t.signalBoth(0, count);
			continue;
		}
		t.wait(0, j - 1, count); // 3.
		if (j == 1) marks.check(t);
		if (!t.on()) return;
		// 4.
		u64 at = start(0, j - 1), bytes = length(0, j - 1);
		foldTile(t, slots.at, a.in + at, j - 1, bytes, a.divisor, [&](u64 i, Line sum) {
			u64 left = bytes - 16 * i;
#pragma unroll 1
			for (u32 d = 0; d < g.size; d++) writeUser(outs.at[d] + at + 16 * i, sum, left);
		});
		t.signalBoth(j, count); // 5.
	}
	if (n != 0) t.wait(1, n - 1, count); // 6.
	t.finish(count);
}
