// A chain by rows: data that goes from rank to rank, each of which hands on what it takes. A hop needs no fence, which tiles
// pay for at every one; a row is behind the next hop when it has been looked at.
//
// Data goes one way, in rounds as in all_reduce_ll128: numbers flag to last. What comes back are signs, the flag of a row and
// nothing else, at a row's flag's place. Neighbours in the chain, a sender and a receiver, do so warp by warp, each sign in the
// row with the warp's index:
//   The receiver signs flag when it enters, and number n+1 when it has taken the quads of round n, but of the last one.
//   The sender awaits number n-1 before it puts quads of round n, but of the first one, and number last before it leaves.
// A warp that has no quad, which there is in a single round alone, does neither. Other pairs greet, by one warp of each:
//   Both sign flag when they enter, and await it. Where last is in the other half, they sign last after that, and await it.
//
// What the next operation relies on, as those of rows.h do. When a rank has left, then for each peer:
//   (1) the peer has entered this operation, so it has ended the one before;
//   (2) of what this rank has stored at the peer, it may have yet to find what is in the half of last, and nothing else.
// The next operation begins in the half that is not last's, and stores in that one when it has heard that the peer is in it.
//
// (1) A sender has found flag or what is signed later, a receiver has taken quads, others have found the greeting.
// (2) Data: the sender has found last, so the quads of all rounds but the last have been taken. Signs: the receiver has taken
// quads of round last, put when number last-1 had been found. Greetings: last is signed by who has found flag. A greeting of
// last alone would be stored in the half that the operation before has ended in, with flag alone it would be left in the half
// that the next one begins in.
//
// Why a place is free. The half of flag is, by (2) of the operation before. In the other half the first that is stored is
// what follows a sign or quad of the peer of number flag, which has ended the operation before, by then: quads of round
// flag+1, sign flag+1, the greeting of last. From then on quads of round n follow sign n-1, so that those of round n-2 are
// taken, and sign n follows the quads of round n-1, which were put when sign n-2 had been found.
//
// Nothing is stored at a rank that has left, for it has awaited it all: every quad and every number of every sign.
// A rank that was stopped hands nothing on and signs nothing: the rank after it would take what never came for its result.
#pragma once
#include "ll128.h"

// sign stores sign w of a slot, signedAs waits for that of rank peer; it returns false where it was stopped.
DEVICE u64 creditAt(u64 slot, u32 w) { return slot + 128 * (u64)w + 120; }
DEVICE void postCredit(u64 slot, u32 w, u32 number) {
	together();
	if (lane() == 0) asm volatile("st.volatile.global.v2.u32 [%0], {%1,%1};" ::"l"(creditAt(slot, w)), "r"(number) : "memory");
}
DEVICE bool awaitCredit(LL128 &r, u64 slot, u32 w, u32 peer, u32 number) {
	bool here;
	do {
		Half v{{number, number}};
		if (lane() == 0)
			asm volatile("ld.volatile.global.v2.u32 {%0,%1}, [%2];" : "=r"(v.w[0]), "=r"(v.w[1]) : "l"(creditAt(slot, w)) : "memory");
		here = allLanes(((v.w[0] ^ number) | (v.w[1] ^ number)) == 0);
	} while (!here && r.again(lane() == 0 ? peer : maxRanks));
	return here;
}

// broadcast_ll128: the root has none before it, the last rank none after it. A warp looks for some quads at once and hands
// them on in their order, each when it is there.
KERNEL void broadcast_ll128(LL128ChainArgs a) {
	SHARED ByPeerIndex peers;
	constexpr u32 U = 4;
	const GroupArgs &g = a.group;
	u32 step = (u32)warps(), w = (u32)warp(), before = a.before, after = a.after;
	Rounds n(a.bytes, a.slot, step);
	LL128 r(g, a.slot, n.rounds);
	peers.fill(a.ll128);
	r.arrive(); // which is a barrier, too
	auto at = [&](u32 d, u32 number) { return r.slot(peers.at[d], g.rank, peerAt(g, d), number); };
	auto from = [&](u32 d, u32 number) { return r.slot(peers.at[0], peerAt(g, d), g.rank, number); };
	auto found = [&](u32 d, u32 i, u32 number) { return awaitCredit(r, from(d, number), i, peerAt(g, d), number); };
	auto stranger = [&](u32 d) { return d != before && d != after; };
	bool on = true, greets = w == step - 1, twice = n.rounds % 2 == 0; // on: it was not stopped
	if (greets)
#pragma unroll 1
		for (u32 d = 1; d < g.size; d++)
			if (stranger(d)) postCredit(at(d, r.flag), 0, r.flag);
	if (before != 0 && w < n.all) postCredit(at(before, r.flag), w, r.flag);
#pragma unroll 1
	for (u32 first = 0, number = r.flag; on && first + w < n.all; first += n.room, number++) {
		u32 end = (u32)smaller(first + n.room, n.all);
		u64 in = from(before, number), out = at(after, number);
		if (after != 0 && number != r.flag) on = found(after, w, number - 1);
#pragma unroll 1
		for (u32 i = first + w; on && i < end; i += U * step) {
			Line v[U];
			u32 done = 0, some = (u32)smaller((end - i + step - 1) / step, U);
			do {
				afresh(i);
#pragma unroll
				for (u32 u = 0; u < U; u++)
					if (u >= done && u < some) v[u] = before == 0 ? readChunk(a.in, i + u * step, a.bytes) : r.look(in, i + u * step - first);
#pragma unroll
				for (u32 u = 0; u < U; u++)
					if (u == done && u < some && (before == 0 || allLanes(r.there(v[u], number)))) {
						if (after != 0) r.put(out, i + u * step - first, v[u], number);
						if (before != 0) writeChunk(a.out, i + u * step, v[u], a.bytes);
						done++;
					}
			} while (done < some && r.again(lane() == 0 ? peerAt(g, before) : maxRanks));
			on = done == some;
		}
		if (on && before != 0 && number != r.last) postCredit(at(before, number + 1), w, number + 1);
		if (greets && twice && number == r.flag)
#pragma unroll 1
			for (u32 d = 1; d < g.size; d++)
				if (stranger(d) && (on = on && found(d, 0, number))) postCredit(at(d, r.last), 0, r.last);
	}
	if (on && after != 0 && w < n.all) on = found(after, w, r.last);
	if (on && greets)
#pragma unroll 1
		for (u32 d = 1; d < g.size; d++)
			if (stranger(d)) on = on && found(d, 0, twice ? r.last : r.flag);
	r.finish();
}
