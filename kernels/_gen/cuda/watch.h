// Waiting. Every loop that waits for a peer ends when the abort flag in host memory is set. An aborted loop is left, but not the
// kernel: barriers of the block stay uniform, and later loops end at once.
#pragma once
#include "args.h"

struct Watch {
	u64 abort;
	u32 spins = 0;
	bool aborted = false;

	// again reports whether to poll once more for data of rank peer. Reading the host's flag is slow, the more so when many threads
	// do. So it is read every 65,536 polls, some tens of milliseconds apart, which is longer than large operations wait.
	__attribute__((device, always_inline)) bool again(u32 peer) {
		if (aborted) return false;
		if ((++spins & 65535) == 0 && watchWord(abort) != 0) {
			aborted = true;
			postWord(abort + 4 + 4 * peer, 1);
		}
		return !aborted;
	}
};

// peerAt returns the rank with peer index d.
DEVICE u32 peerAt(const GroupArgs &g, u32 d) {
	u32 q = g.rank + d;
	return q < g.size ? q : q - g.size;
}

// slotOf returns the index of rank from's slot among the slots of rank to, which has one for each peer.
DEVICE u32 slotOf(u32 from, u32 to) { return from < to ? from : from - 1; }

// peerIndexOf is the inverse of peerAt.
DEVICE u32 peerIndexOf(const GroupArgs &g, u32 q) { return q >= g.rank ? q - g.rank : q + g.size - g.rank; }

// ByPeerIndex holds in shared memory an array of the arguments. A parameter can only be indexed by constants without a copy in local
// memory.
struct ByPeerIndex {
	u64 at[maxRanks];
	// fill copies a, with one thread for each entry. A barrier must follow.
	__attribute__((device, always_inline)) void fill(const u64 (&a)[maxRanks]) {
#pragma unroll
		for (u32 d = 0; d < maxRanks; d++)
			if (thread() == d) at[d] = a[d];
	}
};
