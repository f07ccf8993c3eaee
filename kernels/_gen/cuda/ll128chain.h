// A chain by LL128: data goes from rank to rank, and each rank hands on what it takes. A hop needs no fence, where tiles pay for one
// at every hop. An LL128 line is stored at the next rank when it has been polled once.
//
// Data goes one way, in rounds as in all_reduce_ll128, with the numbers flag to last. Credits come back. A credit is a number
// alone, stored where an LL128 line has its flag. Two neighbours in the chain, a sender and a receiver, exchange credits warp by
// warp, each in the line that has the warp's index:
//   The receiver returns credit flag when it enters. It returns credit n+1 when it has taken the chunks of round n, but for the
//   last round.
//   The sender waits for credit n-1 before it puts chunks of round n, but for the first round. It waits for credit last before
//   it leaves.
// A warp that has no chunk does neither. There are such warps only where there is a single round. Other pairs of ranks greet each
// other, by one warp of each:
//   Both store credit flag when they enter, and wait for it. If last is in the other half, they then store credit last and wait
//   for it.
//
// The next operation relies on the same as after the operations of ll128.h. When a rank has left, then for each peer:
//   (1) The peer has entered this operation, so it has ended the one before.
//   (2) Of the lines that this rank has stored at the peer, the peer may still have to find those in the half of last. It has found
// all others. The next operation begins in the half that is not last's. It stores in the half of last when the peer has
// shown it that the peer is in that operation.
//
// (1) A sender has found credit flag or a later one, a receiver has taken chunks, and other pairs have found the greeting.
// (2) Data: the sender has found credit last, so the chunks of all rounds but the last have been taken. Credits: the receiver has
// taken chunks of round last, which the sender put when it had found credit last-1. Greetings: a rank stores credit last when it
// has found credit flag. A greeting of last alone would be stored in the half in which the operation before has ended. A greeting
// of flag alone would be left in the half in which the next operation begins.
//
// Why a place is free. By (2) of the operation before, the half of flag is free. In the other half, the first store follows a credit
// or chunk of number flag from the peer, which has therefore ended the operation before. Such stores are chunks of round flag+1,
// credit flag+1, and the greeting of last. From then on chunks of round n follow credit n-1, so the chunks of round n-2 are
// taken. And credit n follows the chunks of round n-1, which were put when credit n-2 had been found.
//
// Nothing is stored at a rank that has left: it has waited for every chunk and for every number of every credit.
// A rank that was aborted hands nothing on and returns no credit. Else the rank after it would take chunks that never came for its
// result.
#pragma once
#include "ll128.h"

// postCredit stores the credit of warp w in a slot. awaitCredit waits for the credit of rank peer, and returns false if it was
// aborted.
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

// broadcast_ll128 is a broadcast along the chain. The root has no rank before it, the last rank none after it.
//   1. Greet the ranks that are no neighbours, by one warp.
//   2. Return credit flag to the rank before.
//   In each round:
//   3. Wait for credit from the rank after.
//   4. Poll some chunks at once. Hand each on in order when it has arrived, and keep it.
//   5. Return credit to the rank before.
//   6. After the first round: answer the greetings with credit last, if there are two halves in use.
//   At the end:
//   7. Wait for credit last, and for the last greetings.
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
	bool &on = r.on, greets = w == step - 1, twice = n.rounds % 2 == 0;
	if (on && greets) // 1.
#pragma unroll 1
		for (u32 d = 1; d < g.size; d++)
			if (stranger(d)) postCredit(at(d, r.flag), 0, r.flag);
	// 2.
	if (on && before != 0 && w < n.all) postCredit(at(before, r.flag), w, r.flag);
#pragma unroll 1
	for (u32 first = 0, number = r.flag; on && first + w < n.all; first += n.room, number++) {
		u32 end = (u32)smaller(first + n.room, n.all);
		u64 in = from(before, number), out = at(after, number);
		// 3.
		if (after != 0 && number != r.flag) found(after, w, number - 1);
		// 4.
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
		}
		// 5.
		if (on && before != 0 && number != r.last) postCredit(at(before, number + 1), w, number + 1);
		// 6.
		if (greets && twice && number == r.flag)
#pragma unroll 1
			for (u32 d = 1; d < g.size; d++)
				if (stranger(d) && on && found(d, 0, number)) postCredit(at(d, r.last), 0, r.last);
	}
	// 7.
	if (on && after != 0 && w < n.all) found(after, w, r.last);
	if (on && greets)
#pragma unroll 1
		for (u32 d = 1; d < g.size; d++)
			if (on && stranger(d)) found(d, 0, twice ? r.last : r.flag);
	r.finish();
}
