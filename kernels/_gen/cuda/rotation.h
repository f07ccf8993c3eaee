// Relays: tiles that go one way, with an answer for each. So a rank can send to one peer while it receives from another,
// which is faster than to exchange with all at once: a link's switch port has one sender and one receiver.
//
// A tile has to be large, for until it may be announced some microseconds pass in which its block stores nothing. So a relay
// sees the tile memory that a pair has anew. What tiles.h calls a circle is a piece here: block b of a relay has the pieces
// b*pieces to (b+1)*pieces-1 of the sender, counted as there, 2*block+phase; pieces is even. In each lie as many tiles as
// fit, in all of them at most deepest: depth. Slots are counted from the odd pieces on, 1, 0, 3, 2, and tiles from the
// last one of the operation: of n, tile j is in slot (n-1-j) mod depth. So the last tiles, as many as are in a piece, are in
// an odd one, where tiles.h has phase 1. They are the quiet ones: nobody says that they are used.
//
// Flag words, of a pair that has n tiles in this operation, for each block:
//   phase 0, of the receiver: number j+1 says that tile j is there;
//   phase 1, of the sender:   number 1 says that the receiver is in this operation, number j+2 that it has used tile j,
//                             which is not quiet.
// The last tile is quiet, so no number is above n, and a pair counts n, as in tiles.h: both ranks know it, and have equal
// counters whatever kernels follow one another. A replayed graph counts on.
//
// Why a slot is free. Only one rank, the sender of the pair, ever stores in its pieces, whatever the kernel. It sends
// nothing before number 1: the receiver's kernels before this one are over then, all their blocks, and with them every use
// of what the sender had sent. From then on tile j is sent when tile j-depth has been used. And the sender does not end
// before all tiles but the quiet ones have been used. So the kernel after this one finds all even pieces of the pair free,
// and kernels of tiles.h may send their first two tiles of phase 0 unasked; before more they have waited for a tile of the
// peer, so it has ended this operation and used the quiet tiles, too. Other pairs' memory is not touched: their senders may
// be in the next operation already.
// Why nothing is stored at a rank that has left. The receiver waits for every tile, the sender for number 1 and, before it
// ends, for the last number that says a tile is used.
#pragma once
#include "direct.h"
#include "own.h"
#include "team.h"

constexpr u32 deepest = 8; // tiles of a pair that are not yet used

// Two blocks of relays always fit on a multiprocessor.
#define TWO_BLOCKS extern "C" __attribute__((global, launch_bounds(512, 2)))

// enter posts number 1 to the rank at place d. What it says was over before this kernel began, so it needs no fence.
DEVICE void enter(Tiles &t, u32 d) { postWord(wordOf(t, 1, d), t.base[d] + 1); }

// level sets the two words to the count that a chain does not need: what this rank says in phase 1 to the rank at place d, to
// which it sends, and what that says in phase 0. That rank may not leave before it has had a tile, which is posted later.
DEVICE void level(Tiles &t, u32 d) {
	postWord(wordOf(t, 1, d), t.base[d]);
	postWord(t.flags[0] + 4 * ((u64)block() * 2 * maxRanks + peerAt(t.g, d)), t.base[d]);
}

// Slots are the places of a block's n tiles of a pair.
struct Slots {
	const GroupArgs &g;
	u32 tile, pieces, n;
	u32 &quiet, &depth; // in shared memory, for registers are few

	struct Store {
		u32 quiet, depth;
	};
	// A barrier must follow.
	__attribute__((device, always_inline)) Slots(const GroupArgs &g, Store &s, u32 tile, u32 pieces, u32 n)
		: g(g), tile(tile), pieces(pieces), n(n), quiet(s.quiet), depth(s.depth) {
		if (thread() != 0) return;
		quiet = (u32)smaller(::depth * g.tileSlot / tile, deepest);
		depth = (u32)smaller(pieces * quiet, deepest);
	}

	// at returns where tile j from the rank at place from, as the receiver counts places, lies in the receiver's memory.
	__attribute__((device, always_inline)) u64 at(u64 memory, u32 from, u32 j) {
		u32 i = (n - 1 - j) % depth;
		u64 piece = (u64)block() * pieces + (i / quiet ^ 1);
		return memory + (piece * (g.size - 1) + from - 1) * ::depth * g.tileSlot + i % quiet * tile;
	}
	__attribute__((device, always_inline)) u64 outgoing(Tiles &t, u32 d, u32 j) { return at(t.memory[d], g.size - d, j); }
	__attribute__((device, always_inline)) u64 incoming(Tiles &t, u32 d, u32 j) { return at(t.memory[0], d, j); }
	// mayGo is the number of phase 1 after which tile j may be sent, mayEnd that after which the sender may end. says reports
	// whether it is told that tile j was used.
	__attribute__((device, always_inline)) u32 mayGo(u32 j) { return j < depth ? 1 : j - depth + 2; }
	__attribute__((device, always_inline)) u32 mayEnd() { return n > quiet ? n - quiet + 1 : 1; }
	__attribute__((device, always_inline)) bool says(u32 j) { return j + quiet < n; }
};

// eachLine loads some lines before it stores them. first and step are in lines.
template <class L, class S> DEVICE void eachLine(u64 bytes, u64 first, u64 step, L load, S store) {
	constexpr u32 U = 4;
	u64 lines = linesOf(bytes);
	for (u64 i = first; i < lines; i += U * step) {
		Line v[U];
#pragma unroll
		for (u32 u = 0; u < U; u++)
			if (i + u * step < lines) v[u] = load(16 * (i + u * step), bytes - 16 * (i + u * step));
#pragma unroll
		for (u32 u = 0; u < U; u++)
			if (i + u * step < lines) store(16 * (i + u * step), bytes - 16 * (i + u * step), v[u]);
	}
}

// carry copies so many bytes to one place or two; also is 0 if there is no second one. first and step deal them to threads, in
// pieces as wide as all places allow. once: what is read is not read again.
template <class T, bool once> DEVICE void pieces(u64 from, u64 to, u64 also, u32 n, u32 first, u32 step) {
	constexpr u32 U = 4; // pieces that are loaded before one is stored
	constexpr u64 size = sizeof(T);
	for (u32 i = first; i < n; i += U * step) {
		T v[U];
#pragma unroll
		for (u32 u = 0; u < U; u++)
			if (i + u * step < n) {
				if constexpr (size == 16) v[u] = once ? streamLine(from + size * (i + u * step)) : loadLine(from + size * (i + u * step));
				else v[u] = elementAt<T>(from + size * (i + u * step));
			}
#pragma unroll
		for (u32 u = 0; u < U; u++)
			if (i + u * step < n) {
				u64 at = size * (i + u * step);
				if constexpr (size == 16) {
					storeLine(to + at, v[u]);
					if (also != 0) storeLine(also + at, v[u]);
				} else {
					putElement(to + at, v[u]);
					if (also != 0) putElement(also + at, v[u]);
				}
			}
	}
}
template <bool once> DEVICE void carry(u64 from, u64 to, u64 also, u32 bytes, u32 first, u32 step) {
	u64 all = from | to | also;
	u32 done = all % 16 == 0 ? bytes & ~15u : all % 4 == 0 ? bytes & ~3u : 0;
	if (all % 16 == 0) pieces<Line, once>(from, to, also, done / 16, first, step);
	else pieces<u32, once>(from, to, also, done / 4, first, step);
	pieces<u8, once>(from + done, to + done, also != 0 ? also + done : 0, bytes - done, first, step);
}

// exchange_rotation is exchange_tiles where all ranks send and receive equally much: to the rank at place 1, then to that at
// place 2, and so on. One half of a block sends, the other receives, and copies the own part while the first tiles come. A
// block has two warps at least.
TWO_BLOCKS void exchange_rotation(ExchangeArgs a) {
	SHARED Tiles::Store store;
	SHARED ByPeerIndex send, recv;
	SHARED Slots::Store slotStore;
	SHARED u32 movedCounts[2];
	const GroupArgs &g = a.group;
	send.fill(a.send);
	recv.fill(a.recv);
	if (thread() < 2) movedCounts[thread()] = 0;
	u64 bytes = a.sendBytes[1];
	u32 tile = a.tile, n = tilesOf(bytes, tile), peers = g.size - 1, half = threads() / 64 * 32;
	Slots slots(g, slotStore, tile, a.pieces, n);
	Tiles t(g, store);
	if (thread() < half) {
		Team team{thread(), half, 1, movedCounts[0]};
		team.run(
			n * peers,
			[&](u32 s, u32 part) {
				if (part == 0) reach(t, 1, 1 + s / n, slots.mayGo(s % n));
			},
			[](u32, u32, u32) {},
			[&](u32 s, u32 first, u32 step) {
				u32 to = 1 + s / n, j = s % n;
				carry<false>(send.at[to] + tileAt(j, tile), slots.outgoing(t, to, j), 0, (u32)within(tileAt(j, tile), tile, bytes), first, step);
			},
			[&](u32 s, u32 part) {
				if (part == 0) post(t, 0, 1 + s / n, s % n + 1);
			});
		u32 d = thread();
		if (n != 0 && d != 0 && d < g.size) reach(t, 1, d, slots.mayEnd());
	} else {
		Team team{thread() - half, threads() - half, 4, movedCounts[1]};
		if (n != 0 && team.thread != 0 && team.thread < g.size) enter(t, team.thread);
		team.run(
			n * peers,
			[&](u32 s, u32 part) {
				if (part == 0) reach(t, 0, peers - s / n, s % n + 1);
			},
			[&](u32 s, u32 first, u32 step) {
				if (s >= n || send.at[0] == recv.at[0]) return;
				carry<true>(send.at[0] + tileAt(s, tile), recv.at[0] + tileAt(s, tile), 0, (u32)within(tileAt(s, tile), tile, bytes), first, step);
			},
			[&](u32 s, u32 first, u32 step) {
				u32 from = peers - s / n, j = s % n;
				carry<true>(slots.incoming(t, from, j), recv.at[from] + tileAt(j, tile), 0, (u32)within(tileAt(j, tile), tile, bytes), first, step);
			},
			[&](u32 s, u32 part) {
				if (part == 0 && slots.says(s % n)) post(t, 1, peers - s / n, s % n + 2);
			});
	}
	t.finish([n](u32 d) { return d == 0 ? 0u : n; });
}

// exchange_direct stores what it sends in the peers' outputs, recv, one peer after the other, between two barriers of the
// blocks of one index. Marks are as in direct.h.
KERNEL void exchange_direct(DirectExchangeArgs a) {
	SHARED Tiles::Store store;
	SHARED ByPeerIndex send, sendBytes, recv;
	SHARED u32 broken;
	const GroupArgs &g = a.group;
	send.fill(a.send);
	sendBytes.fill(a.sendBytes);
	recv.fill(a.recv);
	Tiles t(g, store);
	Marks marks{a.marks, a.mark, broken};
	auto once = [](u32 d) { return d == 0 ? 0u : 1u; };
	marks.tell(t);
	t.signal(0, 0, once);
	own(a.send[0], a.recv[0], a.sendBytes[0], 0);
	t.wait(0, 0, once);
	marks.check(t);
	if (t.watch.aborted) broken = 1;
	sync();
	for (u32 d = 1; d < g.size && broken == 0; d++) {
		u64 from = send.at[d], to = recv.at[d];
		eachLine(sendBytes.at[d], worker(), workers(), [&](u64 at, u64 left) { return readUser(from + at, left); },
				 [&](u64 at, u64 left, Line v) { writeUser(to + at, v, left); });
	}
	t.signal(1, 0, once);
	own(a.send[0], a.recv[0], a.sendBytes[0], 1);
	t.wait(1, 0, once);
	t.finish(once);
}

// broadcast_chain: each rank takes tile after tile from the one before it and hands it on to the one after it; the root has
// none before, the last one none after. The tiles go through slots, or, with direct, from output to output: then number 1 says
// that the output may be written, and nothing that a tile was used. A rank that was stopped, or means another place, hands nothing
// on and announces nothing: the rank after it would take what never came for its result.
TWO_BLOCKS void broadcast_chain(ChainArgs a) {
	SHARED Tiles::Store store;
	SHARED Slots::Store slotStore;
	SHARED u32 broken, movedCounts;
	const GroupArgs &g = a.group;
	if (thread() == 0) broken = movedCounts = 0;
	u32 tile = a.tile, n = tilesOf(a.bytes, tile), before = a.before, after = a.after;
	Slots slots(g, slotStore, tile, a.pieces, n);
	Tiles t(g, store);
	Marks marks{a.marks, a.mark, broken};
	bool direct = a.direct != 0, keep = before != 0 && !direct;
	if (thread() == threads() - 1 && before != 0 && n != 0) {
		if (direct) {
			storeWord(marks.at(t.flags[before], g.rank), a.mark);
			post(t, 1, before, 1);
		} else
			enter(t, before);
	}
	if (thread() == 0 && after != 0 && n != 0) level(t, after);
	Team team{thread(), threads(), 1, movedCounts};
	team.run(
		n,
		[&](u32 j, u32 part) { // thread 0 waits for the rank after this, thread 1 for that before: at the same time
			if (part == 0 ? after != 0 && (j == 0 || !direct) : before != 0)
				reach(t, part == 0, part == 0 ? after : before, part == 0 ? slots.mayGo(j) : j + 1);
			if (part == 0 && after != 0 && direct && j == 0 && !t.watch.aborted && watchWord(marks.at(t.flags[0], peerAt(g, after))) != a.mark) {
				broken = 1;
				postWord(g.abort + 4 * (1 + maxRanks + peerAt(g, after)), 1);
				postWord(g.abort, 1);
			}
			if (t.watch.aborted) broken = 1;
		},
		[](u32, u32, u32) {},
		[&](u32 j, u32 first, u32 step) {
			u64 at = tileAt(j, tile), out = keep ? a.out + at : 0;
			u64 next = after == 0 || broken != 0 ? 0 : direct ? a.next + at : slots.outgoing(t, after, j);
			u64 from = before == 0 ? a.in + at : direct ? a.out + at : slots.incoming(t, before, j);
			u64 to = next != 0 ? next : out, also = next != 0 ? out : 0;
			if (to != 0) carry<true>(from, to, also, (u32)within(at, tile, a.bytes), first, step);
		},
		[&](u32 j, u32 part) {
			if (part == 0 ? after != 0 && broken == 0 : keep && slots.says(j)) post(t, part, part == 0 ? after : before, j + 1 + part);
		});
	if (thread() == 0 && after != 0 && !direct && n != 0) reach(t, 1, after, slots.mayEnd());
	t.finish([&](u32 d) { return d != 0 && (d == before || d == after) ? n : 0u; });
}
