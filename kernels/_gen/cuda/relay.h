// Relays: tiles that go one way, with an answer for each. So a rank can send to one peer while it receives from another,
// which is faster than to exchange with all at once: a link's switch port has one sender and one receiver.
//
// Tile j is announced by number j+1 in the flag words of phase 0, as in tiles.h. Who has used it says so by the same number
// in the flag words of phase 1. Before tile j is sent, tile j-2 has been used. Of the last two nobody says it: nobody waits
// to hear, and nothing is stored at a rank that may have left the operation. So an operation leaves its last two tiles in
// their slots at most, as the kernels of tiles.h do, and no kernel sends more than two before it knows that the peer has
// finished the operation before: the slots of the first two tiles are free, whatever kernels follow one another.
#pragma once
#include "direct.h"
#include "own.h"

// post tells the rank at place d a number of this operation, reach waits for its. One thread calls them, a barrier before
// post and after reach.
DEVICE void post(Tiles &t, u32 phase, u32 d, u32 n) {
	u64 at = t.flags[d] + 4 * (((u64)block() * 2 + phase) * maxRanks + t.g.rank);
	asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(at), "r"(t.base[d] + n) : "memory");
}
DEVICE void reach(Tiles &t, u32 phase, u32 d, u32 n) {
	u32 q = peerAt(t.g, d), v;
	u64 at = t.flags[0] + 4 * (((u64)block() * 2 + phase) * maxRanks + q);
	do asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(at) : "memory");
	while ((i32)(v - (t.base[d] + n)) < 0 && t.watch.again(q));
}

// The block's first thread waits and posts for what is sent, the second one's for what comes: in another warp, if there is one.
DEVICE bool sends() { return thread() == 0; }
DEVICE bool receives() { return thread() == (threads() > 32 ? 32 : 0); }

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

// exchange_turns is exchange_tiles where all ranks send and receive equally much: to the rank at place 1, then to that at
// place 2, and so on. In each step a block sends a tile and receives that of the step before.
KERNEL void exchange_turns(ExchangeArgs a) {
	SHARED Tiles::Store store;
	SHARED Turned send, recv;
	const GroupArgs &g = a.group;
	send.fill(a.send);
	recv.fill(a.recv);
	Tiles t(g, store);
	u64 bytes = a.sendBytes[1];
	u32 tile = a.tile, n = tilesOf(bytes, tile), steps = n * (g.size - 1);
	own(a.send[0], a.recv[0], a.sendBytes[0], 0);
	for (u32 s = 0; n != 0 && s < steps + 1; s++) {
		if (s < steps) {
			u32 to = 1 + s / n, j = s % n;
			if (j >= 2 && sends()) reach(t, 1, to, j - 1);
			sync();
			u64 from = send.at[to] + tileAt(j, tile), slot = t.outgoing(0, to, j);
			eachLine(within(tileAt(j, tile), tile, bytes), thread(), threads(), [&](u64 at, u64 left) { return readUser(from + at, left); },
					 [&](u64 at, u64, Line v) { storeLine(slot + at, v); });
			sync();
			if (sends()) post(t, 0, to, j + 1);
		}
		if (s >= 1) {
			u32 from = g.size - 1 - (s - 1) / n, j = (s - 1) % n;
			if (receives()) reach(t, 0, from, j + 1);
			sync();
			u64 to = recv.at[from] + tileAt(j, tile), slot = t.incoming(0, from, j);
			eachLine(within(tileAt(j, tile), tile, bytes), thread(), threads(), [&](u64 at, u64) { return streamLine(slot + at); },
					 [&](u64 at, u64 left, Line v) { writeUser(to + at, v, left); });
			sync();
			if (receives() && j + 2 < n) post(t, 1, from, j + 1);
		}
	}
	t.finish([n](u32 d) { return d == 0 ? 0u : n; });
	own(a.send[0], a.recv[0], a.sendBytes[0], 1);
}

// exchange_direct stores what it sends in the peers' outputs, recv, one peer after the other, between two barriers of the
// blocks of one index. Marks are as in direct.h.
KERNEL void exchange_direct(DirectExchangeArgs a) {
	SHARED Tiles::Store store;
	SHARED Turned send, sendBytes, recv;
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
	if (t.watch.stopped) broken = 1;
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
// none before, the last one none after. The tiles go through slots, or, with direct, from output to output.
//
// Who sends hears nothing from its peer in the operations before, if those were chains. So nothing is sent before number 1
// of phase 1 says that the peer is in this operation. Then its output may be written, and all slots are free: of used tiles
// only those from the second on are told.
KERNEL void broadcast_chain(ChainArgs a) {
	SHARED Tiles::Store store;
	SHARED u32 broken;
	const GroupArgs &g = a.group;
	Tiles t(g, store);
	Marks marks{a.marks, a.mark, broken};
	u32 tile = a.tile, n = tilesOf(a.bytes, tile), before = a.before, after = a.after;
	bool direct = a.direct != 0;
	if (thread() == 0) {
		broken = 0;
		if (before != 0 && n != 0) {
			if (direct) storeWord(marks.at(t.flags[before], g.rank), a.mark);
			post(t, 1, before, 1);
		}
	}
	for (u32 j = 0; j < n; j++) {
		if (sends() && after != 0) {
			if (j == 0) reach(t, 1, after, 1);
			if (!direct && j >= 3) reach(t, 1, after, j - 1);
			if (direct && j == 0 && !t.watch.stopped && watchWord(marks.at(t.flags[0], peerAt(g, after))) != a.mark) {
				broken = 1;
				postWord(g.stop + 4 * (1 + maxRanks + peerAt(g, after)), 1);
			}
			if (t.watch.stopped) broken = 1;
		}
		if (receives() && before != 0) reach(t, 0, before, j + 1);
		sync();
		u64 at0 = tileAt(j, tile), out = a.out + at0, next = direct ? a.next + at0 : after != 0 ? t.outgoing(0, after, j) : 0;
		u64 from = before == 0 ? a.in + at0 : direct ? out : t.incoming(0, before, j);
		bool keep = before != 0 && !direct, give = after != 0 && broken == 0;
		eachLine(within(at0, tile, a.bytes), thread(), threads(), [&](u64 at, u64 left) { return keep ? streamLine(from + at) : readUser(from + at, left); },
				 [&](u64 at, u64 left, Line v) {
					 if (give && direct) writeUser(next + at, v, left);
					 if (give && !direct) storeLine(next + at, v);
					 if (keep) writeUser(out + at, v, left);
				 });
		sync();
		if (sends() && after != 0) post(t, 0, after, j + 1);
		if (receives() && keep && j >= 1 && j + 2 < n) post(t, 1, before, j + 1);
	}
	t.finish([&](u32 d) { return d != 0 && (d == before || d == after) ? n : 0u; });
}
