// Teams: warps of a block that do different things at once.
#pragma once
#include "tiles.h"

// wordOf returns where this rank tells the one at place d its numbers of a phase.
DEVICE u64 wordOf(Tiles &t, u32 phase, u32 d) { return t.flags[d] + 4 * (((u64)block() * 2 + phase) * maxRanks + t.g.rank); }

// post tells the rank at place d a number of this operation, reach waits for its. One thread of a team calls them.
DEVICE void post(Tiles &t, u32 phase, u32 d, u32 n) {
	releaseWord(wordOf(t, phase, d), t.base[d] + n);
}
DEVICE void reach(Tiles &t, u32 phase, u32 d, u32 n) {
	u32 q = peerAt(t.g, d);
	u64 at = t.flags[0] + 4 * (((u64)block() * 2 + phase) * maxRanks + q);
	while ((i32)(acquireWord(at) - (t.base[d] + n)) < 0 && t.watch.again(q));
}

DEVICE void barSync(u32 barrier, u32 threads) { asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory"); }
DEVICE void barArrive(u32 barrier, u32 threads) { asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory"); }
DEVICE u32 loadShared(volatile u32 &word) { return word; }

// A Team is some of a block's warps that take tiles one after the other. One warp waits until a tile may be moved, one tells
// when it has been, the others move; so the next tile is on its way while the fence of one takes its microseconds. A team of
// less than four warps does all of it together.
struct Team {
	u32 thread, threads; // of the team
	u32 barriers;        // the first of the three barriers that are the team's
	u32 &movedCount;           // in shared memory, 0 at first: tiles that have been moved, as the warp that tells knows
	u32 voices = 2;      // threads that wait or post

	// run takes n tiles. So many threads call wait before a tile, and as many post after it, with their numbers: each does its
	// part. meanwhile is called by those that move, before they wait for tile j.
	template <class W, class I, class M, class P> __attribute__((device, always_inline)) void run(u32 n, W wait, I meanwhile, M move, P post) {
		bool parted = threads >= 128, waits = !parted || thread < 32, posts = !parted || thread / 32 == 1, moves = !parted || thread >= 64;
		u32 poster = parted ? thread - 32 : thread, mover = parted ? thread - 64 : thread, movers = parted ? threads - 64 : threads;
		u32 met = parted ? movers + 32 : threads; // of each barrier: who moves, and who waits or tells
		for (u32 j = 0; j < n; j++) {
			u32 moved = barriers + 1 + j % 2;
			if (moves) meanwhile(j, mover, movers);
			if (waits) {
				if (thread < voices) wait(j, thread);
				// Who tells has left the barrier that tile j will take.
				while (parted && j >= 2 && loadShared(movedCount) < j - 1);
				together();
			}
			if (waits || moves) barSync(barriers, met);
			if (moves) {
				move(j, mover, movers);
				together();
				if (parted) barArrive(moved, met);
			}
			if (posts) {
				barSync(moved, met);
				if (poster == 0) (volatile u32 &)movedCount = j + 1;
				if (poster < voices) post(j, poster);
				together();
			}
		}
	}
};
