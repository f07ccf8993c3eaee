// Teams: some warps of a block that work together, while the block's other warps do something else.
#pragma once
#include "tiles.h"

// wordOf returns the address of the flag word in which this rank tells the rank with peer index d its number of a phase.
DEVICE u64 wordOf(Tiles &t, u32 phase, u32 d) { return t.flags[d] + 4 * (((u64)block() * 2 + phase) * maxRanks + t.g.rank); }

// post tells the rank with peer index d a number of this operation. reach waits for that rank's number. If it was aborted, it sets
// Tiles::broken, so that the block's teams send and post nothing more. One thread of a team calls them.
DEVICE void post(Tiles &t, u32 phase, u32 d, u32 n) {
	releaseWord(wordOf(t, phase, d), t.base[d] + n);
}
DEVICE void reach(Tiles &t, u32 phase, u32 d, u32 n) {
	u32 q = peerAt(t.g, d);
	u64 at = t.flags[0] + 4 * (((u64)block() * 2 + phase) * maxRanks + q);
	while ((i32)(acquireWord(at) - (t.base[d] + n)) < 0 && t.watch.again(q));
	if (t.watch.aborted()) (volatile u32 &)t.broken = 1;
}

DEVICE void barSync(u32 barrier, u32 threads) { asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory"); }
DEVICE void barArrive(u32 barrier, u32 threads) { asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory"); }
DEVICE u32 loadShared(volatile u32 &word) { return word; }

// A Team serves tiles one after the other. One warp waits until a tile may be moved, one warp posts that it has been moved, and the
// others move it. So the next tile is on its way while the fence for one takes its microseconds. In a team of less than four
// warps, every warp does all three.
struct Team {
	u32 thread, threads; // of the team
	u32 barriers;        // the first of the team's three hardware barriers
	u32 &movedCount;           // in shared memory, 0 at first: tiles that have been moved, as the posting warp knows
	u32 voices = 2;      // threads that wait or post

	// run serves n tiles. voices threads call wait before a tile, and as many call post after it. Each passes its thread number and
	// does its part. The moving warps call meanwhile before they wait for tile j. For each tile:
	//   1. The moving warps call meanwhile.
	//   2. The waiting warp waits for the tile, and until the posting warp has left the barrier that the tile will use.
	//   3. The waiting and the moving warps meet at a barrier.
	//   4. The moving warps move the tile, and arrive at the second barrier without waiting there.
	//   5. The posting warp waits at the second barrier, counts the tile and posts it.
	template <class W, class I, class M, class P> __attribute__((device, always_inline)) void run(u32 n, W wait, I meanwhile, M move, P post) {
		bool parted = threads >= 128, waits = !parted || thread < 32, posts = !parted || thread / 32 == 1, moves = !parted || thread >= 64;
		u32 poster = parted ? thread - 32 : thread, mover = parted ? thread - 64 : thread, movers = parted ? threads - 64 : threads;
		u32 met = parted ? movers + 32 : threads; // threads at each barrier: the moving ones and one other warp
		for (u32 j = 0; j < n; j++) {
			u32 moved = barriers + 1 + j % 2;
			if (moves) meanwhile(j, mover, movers); // 1.
			if (waits) { // 2.
				if (thread < voices) wait(j, thread);
				while (parted && j >= 2 && loadShared(movedCount) < j - 1);
				together();
			}
			if (waits || moves) barSync(barriers, met); // 3.
			if (moves) { // 4.
				move(j, mover, movers);
				together();
				if (parted) barArrive(moved, met);
			}
			if (posts) { // 5.
				barSync(moved, met);
				if (poster == 0) (volatile u32 &)movedCount = j + 1;
				if (poster < voices) post(j, poster);
				together();
			}
		}
	}
};
