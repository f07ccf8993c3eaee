// One-way tiles: tiles that a rank sends to one peer while it receives from another, each with an answer. That is faster
// than an exchange with all peers at once, for a link's switch port then has one sender and one receiver. The kernel
// exchange_rotation rotates through the peers, and broadcast_chain hands tiles on from rank to rank.
//
// A one-way tile has to be large, for its block stores nothing in the microseconds until the tile may be announced. So these
// kernels divide the tile memory of a pair in their own way. A circle of tiles.h is a piece here. Block b has the sender's
// pieces b*pieces to (b+1)*pieces-1, counted as 2*block+phase in tiles.h, and pieces is even. Each piece has as many tiles as
// fit, and all pieces together have at most deepest tiles: depth. Slots are counted from the odd pieces on, 1, 0, 3, 2, and
// tiles from the last one of the operation. Of n tiles, tile j is in slot (n-1-j) mod depth. So the last tiles, as many as a
// piece has, are in an odd piece, where tiles.h has phase 1. They are the quiet tiles: no rank says that they are used.
//
// Flag words, of a pair that has n tiles in this operation, for each block:
//   phase 0, set by the sender:   number j+1 says that tile j has arrived;
//   phase 1, set by the receiver: number 1 says that the receiver is in this operation, number j+2 that it has used tile j, if
//                                 that tile is not quiet.
// The last tile is quiet, so no number is above n. A pair counts n, as in tiles.h: both ranks know n, and have equal counters
// whatever kernels follow one another. A replayed graph counts on.
//
// Why a slot is free. Only one rank, the sender of the pair, ever stores in its pieces, whatever the kernel. It sends nothing before
// number 1. All blocks of the receiver's kernels before this one are over then, and so is every use of the tiles that the
// sender had sent. From then on tile j is sent when tile j-depth has been used. The sender does not end before all tiles but
// the quiet ones have been used. So the next kernel finds all even pieces of the pair free. Kernels of tiles.h may therefore
// send their first two tiles of phase 0 unasked. Before they send more they have waited for a tile of the peer. The peer has then
// ended this operation and used the quiet tiles, too. The memory of other pairs is not touched: their senders may already be
// in the next operation.
// Why nothing is stored at a rank that has left. The receiver waits for every tile. The sender waits for number 1 and, before it
// ends, for the last number that says that a tile is used.
// A block that was aborted stores in no slot, and posts no number of either phase.
#pragma once
#include "direct.h"
#include "own.h"
#include "team.h"

constexpr u32 deepest = 8; // the most tiles of a pair that are sent and not yet used

// enter posts number 1 to the rank with peer index d. The operations that it declares over ended before this kernel began, so it
// needs no fence.
DEVICE void enter(Tiles &t, u32 d) { postWord(wordOf(t, 1, d), t.base[d] + 1); }

// level sets to the count the two flag words that a chain does not need. This rank sends to the rank with peer index d. One
// word is of phase 1, from this rank to that rank, the other of phase 0, from that rank to this one. That rank may not leave
// before it has had a tile, which is posted later.
DEVICE void level(Tiles &t, u32 d) {
	postWord(wordOf(t, 1, d), t.base[d]);
	postWord(t.flags[0] + 4 * ((u64)block() * 2 * maxRanks + peerAt(t.g, d)), t.base[d]);
}

// Slots computes where a block's n tiles of a pair lie.
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

	// at returns where a sender's tile j lies in the receiver's memory. from is the sender's peer index at the receiver.
	__attribute__((device, always_inline)) u64 at(u64 memory, u32 from, u32 j) {
		u32 i = (n - 1 - j) % depth;
		u64 piece = (u64)block() * pieces + (i / quiet ^ 1);
		return memory + (piece * (g.size - 1) + from - 1) * ::depth * g.tileSlot + i % quiet * tile;
	}
	__attribute__((device, always_inline)) u64 outgoing(Tiles &t, u32 d, u32 j) { return at(t.memory[d], g.size - d, j); }
	__attribute__((device, always_inline)) u64 incoming(Tiles &t, u32 d, u32 j) { return at(t.memory[0], d, j); }
	// mayGo returns the number of phase 1 after which tile j may be sent, mayEnd the number after which the sender may end.
	// With says, the receiver posts that it has used tile j.
	__attribute__((device, always_inline)) u32 mayGo(u32 j) { return j < depth ? 1 : j - depth + 2; }
	__attribute__((device, always_inline)) u32 mayEnd() { return n > quiet ? n - quiet + 1 : 1; }
	__attribute__((device, always_inline)) bool says(u32 j) { return j + quiet < n; }
};

// eachLine copies lines. Each thread loads some before it stores them. first and step are in lines.
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

// carry copies bytes to one address or two; the second, also, is 0 if there is none. The bytes are dealt to threads by first
// and step, in elements as wide as all addresses allow. With once, the source is not read again.
template <class T, bool once> DEVICE void pieces(u64 from, u64 to, u64 also, u32 n, u32 first, u32 step) {
	constexpr u32 U = 4; // elements that are loaded before one is stored
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

// exchange_rotation exchanges parts where all ranks send and receive equally much. A rank sends first to the rank with peer
// index 1, then to the rank with peer index 2, and so on. A block has at least two warps. One half of the block sends:
//   1. Wait until the tile's slot is free, copy the tile into it, and announce it.
//   2. Wait until all peers have used their tiles but the quiet ones.
// The other half receives:
//   3. Tell every peer that this rank is in the operation.
//   4. While the first peer's tiles come, copy the own part.
//   5. Wait for a tile, copy it to the output, and post that it has been used, if it is not quiet.
KERNEL_OF(512, 2) void exchange_rotation(ExchangeArgs a) {
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
	if (!t.begins) return;
	if (thread() < half) {
		Team team{thread(), half, 1, movedCounts[0]};
		team.run(
			n * peers,
			[&](u32 s, u32 part) {
				if (part == 0) reach(t, 1, 1 + s / n, slots.mayGo(s % n)); // 1.
			},
			[](u32, u32, u32) {},
			[&](u32 s, u32 first, u32 step) {
				if (!t.on()) return;
				u32 to = 1 + s / n, j = s % n;
				carry<false>(send.at[to] + tileAt(j, tile), slots.outgoing(t, to, j), 0, (u32)within(tileAt(j, tile), tile, bytes), first, step);
			},
			[&](u32 s, u32 part) {
				if (part == 0 && t.on()) post(t, 0, 1 + s / n, s % n + 1);
			});
		u32 d = thread();
		if (n != 0 && d != 0 && d < g.size) reach(t, 1, d, slots.mayEnd()); // 2.
	} else {
		Team team{thread() - half, threads() - half, 4, movedCounts[1]};
		if (n != 0 && team.thread != 0 && team.thread < g.size) enter(t, team.thread); // 3.
		team.run(
			n * peers,
			[&](u32 s, u32 part) {
				if (part == 0) reach(t, 0, peers - s / n, s % n + 1); // 5.
			},
			[&](u32 s, u32 first, u32 step) {
				if (s >= n || send.at[0] == recv.at[0]) return; // 4.
				carry<true>(send.at[0] + tileAt(s, tile), recv.at[0] + tileAt(s, tile), 0, (u32)within(tileAt(s, tile), tile, bytes), first, step);
			},
			[&](u32 s, u32 first, u32 step) {
				u32 from = peers - s / n, j = s % n;
				carry<true>(slots.incoming(t, from, j), recv.at[from] + tileAt(j, tile), 0, (u32)within(tileAt(j, tile), tile, bytes), first, step);
			},
			[&](u32 s, u32 part) {
				if (part == 0 && slots.says(s % n) && t.on()) post(t, 1, peers - s / n, s % n + 2);
			});
	}
	t.finish([n](u32 d) { return d == 0 ? 0u : n; });
}

// exchange_direct stores the parts that it sends in the peers' outputs, recv, between two barriers of the blocks of one index. Marks
// are as in direct.h.
//   1. First barrier: post this block's mark, announce it, and wait for the peers'. Meanwhile copy half of the own part.
//   2. Compare the marks.
//   3. Store the parts in the outputs, one peer after the other.
//   4. Second barrier: announce that all is stored, and wait for the peers. Meanwhile copy the other half of the own part.
KERNEL void exchange_direct(DirectExchangeArgs a) {
	SHARED Tiles::Store store;
	SHARED ByPeerIndex send, sendBytes, recv;
	const GroupArgs &g = a.group;
	send.fill(a.send);
	sendBytes.fill(a.sendBytes);
	recv.fill(a.recv);
	Tiles t(g, store);
	if (!t.begins) return;
	Marks marks{a.marks, a.mark};
	auto once = [](u32 d) { return d == 0 ? 0u : 1u; };
	marks.tell(t);
	t.signal(0, 0, once); // 1.
	own(a.send[0], a.recv[0], a.sendBytes[0], 0);
	t.wait(0, 0, once);
	marks.check(t); // 2.
	if (!t.on()) return;
	for (u32 d = 1; d < g.size; d++) { // 3.
		u64 from = send.at[d], to = recv.at[d];
		eachLine(sendBytes.at[d], worker(), workers(), [&](u64 at, u64 left) { return readUser(from + at, left); },
				 [&](u64 at, u64 left, Line v) { writeUser(to + at, v, left); });
	}
	t.signal(1, 0, once); // 4.
	own(a.send[0], a.recv[0], a.sendBytes[0], 1);
	t.wait(1, 0, once);
	t.finish(once);
}

// broadcast_chain has each rank take tile after tile from the rank before it and hand it on to the rank after it. The root has no rank
// before it, the last rank none after it. The tiles go through slots, or with direct from output to output. With direct, number 1
// says that the output may be written, and no number says that a tile was used. A mark of the rank after that differs aborts the
// block, too.
//   1. Tell the rank before that this rank is in the operation, with direct by the mark, too.
//   2. Set the two flag words that a chain does not need.
//   For each tile:
//   3. Wait until the rank after has room, and at the same time for the tile of the rank before. With direct, compare the mark
//      of the rank after at the first tile.
//   4. Copy the tile to the rank after and, if it came through a slot, to the output.
//   5. Announce the tile to the rank after. Post to the rank before that it has been used.
//   At the end:
//   6. Wait until the rank after has used all tiles but the quiet ones.
KERNEL_OF(512, 2) void broadcast_chain(ChainArgs a) {
	SHARED Tiles::Store store;
	SHARED Slots::Store slotStore;
	SHARED u32 movedCounts;
	const GroupArgs &g = a.group;
	if (thread() == 0) movedCounts = 0;
	u32 tile = a.tile, n = tilesOf(a.bytes, tile), before = a.before, after = a.after;
	Slots slots(g, slotStore, tile, a.pieces, n);
	Tiles t(g, store);
	if (!t.begins) return;
	Marks marks{a.marks, a.mark};
	bool direct = a.direct != 0, keep = before != 0 && !direct;
	if (thread() == threads() - 1 && before != 0 && n != 0) { // 1.
		if (direct) {
			storeWord(marks.at(t.flags[before], g.rank), a.mark);
			post(t, 1, before, 1);
		} else
			enter(t, before);
	}
	if (thread() == 0 && after != 0 && n != 0) level(t, after); // 2.
	Team team{thread(), threads(), 1, movedCounts};
	team.run(
		n,
		[&](u32 j, u32 part) { // 3. thread 0 waits for the rank after, thread 1 for the rank before
			if (part == 0 ? after != 0 && (j == 0 || !direct) : before != 0)
				reach(t, part == 0, part == 0 ? after : before, part == 0 ? slots.mayGo(j) : j + 1);
			if (part == 0 && after != 0 && direct && j == 0) marks.compare(t, after);
		},
		[](u32, u32, u32) {},
		[&](u32 j, u32 first, u32 step) {
			// 4.
			u64 at = tileAt(j, tile), out = keep ? a.out + at : 0;
			u64 next = after == 0 || !t.on() ? 0 : direct ? a.next + at : slots.outgoing(t, after, j);
			u64 from = before == 0 ? a.in + at : direct ? a.out + at : slots.incoming(t, before, j);
			u64 to = next != 0 ? next : out, also = next != 0 ? out : 0;
			if (to != 0) carry<true>(from, to, also, (u32)within(at, tile, a.bytes), first, step);
		},
		[&](u32 j, u32 part) {
			// 5.
			if (t.on() && (part == 0 ? after != 0 : keep && slots.says(j))) post(t, part, part == 0 ? after : before, j + 1 + part);
		});
	if (thread() == 0 && after != 0 && !direct && n != 0) reach(t, 1, after, slots.mayEnd()); // 6.
	t.finish([&](u32 d) { return d != 0 && (d == before || d == after) ? n : 0u; });
}
