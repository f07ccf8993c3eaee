// Waiting. Every loop that waits for a peer is stopped by the stop word in host memory. A stopped loop is left, not the
// kernel: barriers of the block stay uniform, and later loops end at once.
#pragma once
#include "args.h"

struct Watch {
	u64 abort;
	u32 spins = 0;
	bool aborted = false;

	// again reports whether to look once more for what rank peer has not done yet. Reading the host's word is slow, the more so
	// when many do: it is read every 65,536 times, some tens of milliseconds apart, which is longer than large operations wait.
	__attribute__((device, always_inline)) bool again(u32 peer) {
		if (aborted) return false;
		if ((++spins & 65535) == 0 && watchWord(abort) != 0) {
			aborted = true;
			postWord(abort + 4 + 4 * peer, 1);
		}
		return !aborted;
	}
};

// peerAt returns the rank that stands at place d of turned arrays.
DEVICE u32 peerAt(const GroupArgs &g, u32 d) {
	u32 q = g.rank + d;
	return q < g.size ? q : q - g.size;
}

// slotOf returns which of a rank's slots, one for each peer, is that of rank from.
DEVICE u32 slotOf(u32 from, u32 to) { return from < to ? from : from - 1; }

// placeOf is peerAt's inverse.
DEVICE u32 peerIndexOf(const GroupArgs &g, u32 q) { return q >= g.rank ? q - g.rank : q + g.size - g.rank; }

// Shared memory holds the arrays of GroupArgs that are indexed by what is only known at run time.
struct ByPeerIndex {
	u64 at[maxRanks];
	// fill copies a, one thread an entry; a barrier must follow.
	__attribute__((device, always_inline)) void fill(const u64 (&a)[maxRanks]) {
#pragma unroll
		for (u32 d = 0; d < maxRanks; d++)
			if (thread() == d) at[d] = a[d];
	}
};
