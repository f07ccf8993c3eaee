// Tiles: pieces of some KiB. A block pushes each tile to the block of the same index on a peer, and announces it by a flag word that
// counts. All ranks launch the same blocks and tile size.
//
// Tile memory of a rank: for each block, phase (0 inputs, 1 results) and peer index, depth tiles in a circle. Flag words: for each
// block and phase, one for each sending rank. A pair of ranks counts its tiles, by block, through all operations. The counters lie
// in device memory, so a replayed graph counts on.
//
// Words are compared as signed differences, so no word may fall 2^31 behind the count. An operation may not need a word, such as the word
// of phase 1 without results. It then sets the word to the count of before the operation. The store that does so comes before a
// store for which the peer waits.
//
// No tile is acknowledged. That a slot is free follows from the tiles that have arrived. In each step j a block first sends tile j
// of phase 0. Then it waits for the peer's tile j-1 of phase 0 and uses it. In an all-reduce it then sends tile j-1 of phase 1,
// waits for the peer's tile j-2 of phase 1 and uses it. An all-reduce announces both tiles of a step at once, after both.
//   Phase 0. A block that sends tile j has waited for the peer's tile j-2. The peer sent it in its step j-2, after its step j-3, in
//   which it used tile j-4. So the slot of tile j-4 is free, and depth is 4.
//   Phase 1. A block that sends tile j-1 has waited for the peer's tile j-1 of phase 0. The peer sent it in its step j-1, after it
//   used tile j-4 of phase 1 in step j-2. So the slot of tile j-5 is free.
// The same holds from one operation to the next. The first tile of a peer that arrives says that the peer has finished the operation
// before. Until then at most two tiles are sent.
//
// A block that was aborted announces no tile, for its results lack a rank's input. It pushes no tile for whose slot it has not waited.
#pragma once
#include "watch.h"

struct Tiles {
	const GroupArgs &g;
	u64 (&memory)[maxRanks]; // by peer index, in shared memory
	u64 (&flags)[maxRanks];  // by peer index
	u32 (&base)[maxRanks];   // by peer index: tiles of the pair before this operation
	u32 &broken;             // in shared memory: not 0 if a thread of the block was aborted
	bool begins = true;      // no kernel before this one was aborted
	Watch watch;

	struct Store {
		ByPeerIndex memory, flags;
		u32 base[maxRanks], broken;
	};
	// The first threads load the counters. The last thread loads the word that an aborted kernel has left, in another warp if there are several.
	__attribute__((device, always_inline)) Tiles(const GroupArgs &g, Store &s)
		: g(g), memory(s.memory.at), flags(s.flags.at), base(s.base), broken(s.broken), watch{g.state, g.abort} {
		s.memory.fill(g.tiles);
		s.flags.fill(g.flags);
		awaitBefore();
		if (thread() == threads() - 1) begins = (broken = watch.left()) == 0;
		if (thread() < g.size) base[thread()] = watchWord(counter(thread()));
		begins = __nvvm_bar0_and(begins) != 0;
	}
	// on reports whether no thread of the block was aborted. All threads get the same answer between the barrier of a wait and the next
	// barrier. A barrier that gives them the answer takes longer: up to 7 % of an exchange of 8 MiB on an H100.
	__attribute__((device, always_inline)) bool on() { return (volatile u32 &)broken == 0; }
	__attribute__((device, always_inline)) u64 counter(u32 d) { return g.state + 64 + 4 * ((u64)block() * maxRanks + d); }

	// slot returns where tile j lies in the memory of the rank with peer index where. The other rank of the pair has peer
	// index d. At the rank that has the memory, the sender's peer index is from.
	__attribute__((device, always_inline)) u64 slot(u32 where, u32 phase, u32 from, u32 d, u32 j) {
		u64 circle = ((u64)block() * 2 + phase) * (g.size - 1) + from - 1;
		return memory[where] + (circle * depth + (base[d] + j) % depth) * g.tileSlot;
	}
	__attribute__((device, always_inline)) u64 outgoing(u32 phase, u32 d, u32 j) { return slot(d, phase, g.size - d, d, j); }
	__attribute__((device, always_inline)) u64 incoming(u32 phase, u32 d, u32 j) { return slot(0, phase, d, d, j); }

	// signal announces tile j to each peer that has more than j tiles by count. wait waits for the peers' tiles j. Ask on whether all have
	// come.
	template <class C> __attribute__((device, always_inline)) void signal(u32 phase, u32 j, C count) {
		sync();
		u32 d = thread();
		if (d == 0 || d >= g.size || j >= count(d)) return;
		u64 at = flags[d] + 4 * (((u64)block() * 2 + phase) * maxRanks + g.rank);
		if (phase == 0 && j == 0) postWord(at + 4 * maxRanks, base[d]);
		releaseWord(at, base[d] + j + 1);
	}
	// signalBoth announces to each peer tile j of phase 0, if there are more than j tiles, and tile j-1 of phase 1. One fence serves
	// both.
	template <class C> __attribute__((device, always_inline)) void signalBoth(u32 j, C count) {
		sync();
		u32 d = thread();
		if (d == 0 || d >= g.size) return;
		u64 at = flags[d] + 4 * ((u64)block() * 2 * maxRanks + g.rank);
		asm volatile("fence.acq_rel.sys;" ::: "memory");
		if (j < count(d)) postWord(at, base[d] + j + 1);
		if (j >= 1 && j - 1 < count(d)) postWord(at + 4 * maxRanks, base[d] + j);
	}
	template <class C> __attribute__((device, always_inline)) void wait(u32 phase, u32 j, C count) {
		u32 d = thread();
		if (d != 0 && d < g.size && j < count(d)) {
			u32 q = peerAt(g, d);
			u64 at = flags[0] + 4 * (((u64)block() * 2 + phase) * maxRanks + q);
			while ((i32)(acquireWord(at) - (base[d] + j + 1)) < 0 && watch.again(q));
			if (watch.aborted()) (volatile u32 &)broken = 1;
		}
		sync();
	}
	// finish adds this operation's tiles to the counters. count returns the number of this block's tiles of a pair.
	template <class C> __attribute__((device, always_inline)) void finish(C count) {
		sync();
		if (thread() < g.size) postWord(counter(thread()), base[thread()] + count(thread()));
	}

	// push copies bytes(d) of user memory at from(d), at most a tile, to the outgoing slot of each peer d. The reverse,
	// pull, copies the incoming slots to user memory. Threads are dealt the lines of all peers at once, so that one wait for
	// memory serves all.
	template <class F, class B> __attribute__((device, always_inline)) void push(u32 phase, u32 j, u32 tile, F from, B bytes) {
		push(phase, j, tile, from, bytes, thread(), threads());
	}
	template <class F, class B> __attribute__((device, always_inline)) void push(u32 phase, u32 j, u32 tile, F from, B bytes, u32 first, u32 step) {
		each(tile, bytes, first, step, [&](u32 d, u32 i, u64 left) { return readUser(from(d) + 16ul * i, left); },
			 [&](u32 d, u32 i, u64, Line v) { storeLine(outgoing(phase, d, j) + 16ul * i, v); });
	}
	template <class T, class B> __attribute__((device, always_inline)) void pull(u32 phase, u32 j, u32 tile, T to, B bytes) {
		each(tile, bytes, thread(), threads(), [&](u32 d, u32 i, u64) { return streamLine(incoming(phase, d, j) + 16ul * i); },
			 [&](u32 d, u32 i, u64 left, Line v) { writeUser(to(d) + 16ul * i, v, left); });
	}

	// each copies lines. Each thread loads some before it stores them. left is the number of bytes from line i on.
	template <class B, class L, class S> __attribute__((device, always_inline)) void each(u32 tile, B bytes, u32 first, u32 step, L load, S store) {
		constexpr u32 U = 3; // 8 took 16 % more time for 256 MiB on four H200
		u32 lines = tile / 16, all = lines * (g.size - 1);
		for (u32 w = first; w < all; w += U * step) {
			Line v[U];
			u64 left[U];
#pragma unroll
			for (u32 u = 0; u < U; u++) {
				u32 x = w + u * step, d = 1 + x / lines, i = x % lines;
				u64 n = x < all ? bytes(d) : 0;
				left[u] = n > 16ul * i ? n - 16ul * i : 0;
				if (left[u] != 0) v[u] = load(d, i, left[u]);
			}
#pragma unroll
			for (u32 u = 0; u < U; u++) {
				u32 x = w + u * step;
				if (left[u] != 0) store(1 + x / lines, x % lines, left[u], v[u]);
			}
		}
	}
};

// tilesOf returns how many tiles of so many bytes belong to this block. The t-th tile of an operation belongs to block t mod blocks.
DEVICE u32 tilesOf(u64 bytes, u32 tile) {
	u64 all = (bytes + tile - 1) / tile;
	return all <= block() ? 0 : (u32)((all - block() - 1) / blocks() + 1);
}

// tileAt returns where this block's j-th tile begins.
DEVICE u64 tileAt(u32 j, u32 tile) { return ((u64)j * blocks() + block()) * tile; }
