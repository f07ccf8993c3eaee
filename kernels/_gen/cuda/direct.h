// Direct: tiles whose results go straight into the peers' outputs. Phase 0 is that of tiles.h, with its memory, flags and
// counters; a tile of phase 1 is announced by the flag word of phase 1, but has no slot: its place is the output.
//
// That a peer's output may be written: the owner of a part writes tile j there after the peer's tile j of phase 0 has come,
// so the peer is in this operation, and what was there, if it was the peer's input, has been read.
// That a slot of phase 0 is free is proven as in tiles.h, by phase 0 alone.
// A rank leaves when the last tile of phase 1 has come from every peer.
//
// With its first tile each block tells its mark. Where a peer's differs the ranks mean different memory: the block then
// writes no output any more, posts the peer's rank in the stop words, and stops this rank's kernels.
#pragma once
#include "tiles.h"

struct Marks {
	u64 marks;
	u32 mark;
	u32 &broken; // in shared memory

	__attribute__((device, always_inline)) u64 at(u64 flags, u32 from) { return flags + marks + 4 * ((u64)block() * maxRanks + from); }

	// tell comes before the signal of tile 0, check after the wait for it. A barrier must follow each.
	__attribute__((device, always_inline)) void tell(Tiles &t) {
		u32 d = thread();
		if (d == 0) broken = 0;
		if (d != 0 && d < t.g.size) storeWord(at(t.flags[d], t.g.rank), mark);
	}
	__attribute__((device, always_inline)) void check(Tiles &t) {
		u32 d = thread();
		if (d == 0 || d >= t.g.size || t.watch.aborted) return;
		u32 q = peerAt(t.g, d);
		if (watchWord(at(t.flags[0], q)) == mark) return;
		broken = 1;
		postWord(t.g.abort + 4 * (1 + maxRanks + q), 1);
		postWord(t.g.abort, 1);
	}
};
