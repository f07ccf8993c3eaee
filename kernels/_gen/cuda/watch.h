// Waiting. Every loop that waits for a peer ends when the abort flag in host memory is set. An aborted loop is left, but not the
// kernel: barriers of the block stay uniform, and later loops end at once.
//
// A rank that was aborted announces nothing: it sends no result and no tile, posts no flag word and returns no credit. A peer may begin
// the operation only now and not have heard of the abort. It would take for right what this rank has made without the peer's
// data. So the peer goes on waiting until it is aborted, too. Threads that stop as one are a thread in LL, a warp in LL128 and the
// sentinel protocol, and a block elsewhere.
//
// The kernels behind an aborted one announce nothing either. Their numbers go on, and a peer would take their tiles for tiles that the
// aborted operation never sent. An aborted loop therefore sets the word at abortedAt in this rank's counters. Every kernel that sends
// loads that word when it begins, with its own counter or beside it. Loads of one word by all warps of a device take turns. So one thread
// of a block loads it, or it comes with the counter in one load. The word is never reset, because a group ends with an abort.
#pragma once
#include "args.h"

struct Watch {
	u64 state, abort; // as in GroupArgs
	u32 spins = 0;    // polls since the host's flag was read, or stopped. Registers are scarce, so one has both.

	static constexpr u32 stopped = 1u << 31; // this thread was aborted, or a kernel before this one

	// left loads the word that an aborted kernel has left: stopped, or 0. It comes after awaitBefore, and next to another load. So both are
	// on their way at the same time. begin has the thread keep the word.
	__attribute__((device, always_inline)) u32 left() { return watchWord(state + abortedAt); }
	__attribute__((device, always_inline)) void begin() { spins = left(); }
	__attribute__((device, always_inline)) bool aborted() { return spins == stopped; }

	// stop marks this thread as aborted, and the kernels behind this one.
	__attribute__((device, always_inline)) void stop() {
		spins = stopped;
		postWord(state + abortedAt, stopped);
	}

	// again reports whether to poll once more for data of rank peer. Reading the host's flag is slow, the more so when many threads
	// do. So it is read every 65,536 polls, some tens of milliseconds apart, which is longer than large operations wait.
	__attribute__((device, always_inline)) bool again(u32 peer) {
		if (aborted()) return false;
		if (++spins < 65536) return true;
		spins = 0;
		if (watchWord(abort) == 0) return true;
		postWord(abort + 4 + 4 * peer, 1);
		stop();
		return false;
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
