// Direct: tiles whose results go straight into the peers' outputs. Phase 0 is that of tiles.h, with its memory, flags and counters. A
// tile of phase 1 is announced by the flag word of phase 1, but it has no slot: it is stored in the output.
//
// Why a peer's output may be written. The owner of a part writes tile j of the result after the peer's tile j of phase 0 has arrived. So
// the peer is in this operation. If its input lay there, the peer has read it.
// Why a slot of phase 0 is free: by the proof of tiles.h, from phase 0 alone.
// A rank leaves when the last tile of phase 1 of every peer has arrived.
//
// With its first tile each block posts its mark. If a peer's mark differs, the ranks mean different memory. The block then posts the
// peer's rank in the abort words, and aborts this rank's kernels and itself.
#pragma once
#include "tiles.h"

struct Marks {
	u64 marks;
	u32 mark;

	__attribute__((device, always_inline)) u64 at(u64 flags, u32 from) { return flags + marks + 4 * ((u64)block() * maxRanks + from); }

	// tell comes before the signal of tile 0, and check after the wait for tile 0. Ask Tiles::on after check.
	__attribute__((device, always_inline)) void tell(Tiles &t) {
		u32 d = thread();
		if (d != 0 && d < t.g.size) storeWord(at(t.flags[d], t.g.rank), mark);
	}
	__attribute__((device, always_inline)) void check(Tiles &t) {
		u32 d = thread();
		if (d != 0 && d < t.g.size) compare(t, d);
		sync();
	}
	// compare aborts this thread, and this rank's kernels, if the mark of the rank with peer index d differs. A thread that was aborted before
	// has not waited for the mark.
	__attribute__((device, always_inline)) void compare(Tiles &t, u32 d) {
		u32 q = peerAt(t.g, d);
		if (t.watch.aborted() || watchWord(at(t.flags[0], q)) == mark) return;
		postWord(t.g.abort + 4 * (1 + maxRanks + q), 1);
		postWord(t.g.abort, 1);
		t.watch.stop();
		(volatile u32 &)t.broken = 1;
	}
};
