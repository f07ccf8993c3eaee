// LL stores 16 bytes that carry 8 bytes of data and prove themselves: an LL line. Each half is 4 bytes of data and a 4-byte
// flag, stored together. So no fence and no barrier is needed: the receiver polls until both flags are this operation's
// number.
//
// LL memory of a rank has two halves, each with one slot for each peer. Operations alternate between the halves by their
// number. Every operation sends at least one LL line to every peer and waits for one from each. So a rank that enters
// operation f has seen all peers enter f-1. They had left f-2, and the rank may overwrite the half of f-2. Only LL lines are
// ever stored there, for data could look like a flag. LL memory starts as zeros, and 0 is no operation's number. A thread that was
// aborted puts nothing.
//
// Sixteen bytes of data become two LL lines, in two planes of the slot, so that a warp stores whole sectors.
#pragma once
#include "watch.h"

struct LL {
	const GroupArgs &g;
	u32 flag, before = 0;
	Watch watch;

	// The operation's number is one more than the counter in device memory, which the last block counts up. A replayed graph
	// counts on. 0 is skipped, to 2, so that the halves still alternate. The constructor loads the counter and number() uses
	// it, so a thread can load its first line in between.
	__attribute__((device, always_inline)) LL(const GroupArgs &g) : g(g), watch{g.state, g.abort} {
		awaitBefore();
		watchPair(g.state, flag, watch.spins);
	}
	__attribute__((device, always_inline)) void number() {
		if (++flag == 0) flag = 2;
	}

	// arrive and finish are called once by all threads. The barrier in arrive tests every thread's number. So no thread of the
	// block still reads the counter when the block counts itself, and the last block may change the counter. A fence would
	// wait for all that was sent; none is needed, for the block looks at its count only in finish.
	__attribute__((device, always_inline)) void arrive() {
		if (__nvvm_bar0_and((int)flag) != 0 && thread() == 0)
			asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(g.state + 24) : "memory");
	}
	__attribute__((device, always_inline)) void finish() {
		if (thread() != 0 || before != blocks() - 1) return;
		postWord(g.state + 24, 0);
		postWord(g.state, flag);
	}

	// slot returns where rank from's data of this operation lies in rank to's LL memory at base.
	__attribute__((device, always_inline)) u64 slot(u64 base, u32 from, u32 to) {
		return base + (u64)((flag & 1) * (g.size - 1) + slotOf(from, to)) * g.llSlot;
	}

	// put stores 16 bytes of data as LL line i of both planes, which are span bytes apart.
	__attribute__((device, always_inline)) void put(u64 slot, u64 span, u64 i, Line v) {
		if (!watch.aborted()) storeBoth(slot, span, i, v);
	}
	__attribute__((device, always_inline)) void storeBoth(u64 slot, u64 span, u64 i, Line v) {
		store(slot + 16 * i, v.w[0], v.w[1]);
		store(slot + span + 16 * i, v.w[2], v.w[3]);
	}
	// putAll stores the same line for every peer.
	__attribute__((device, always_inline)) void putAll(u64 span, u64 i, Line v) {
		if (watch.aborted()) return;
#pragma unroll
		for (u32 d = 1; d < maxRanks; d++) {
			if (d >= g.size) break; // a taken branch costs, so leave the loop and do not test every rank that there could be
			storeBoth(slot(g.ll[d], g.rank, peerAt(g, d)), span, i, v);
		}
	}
	__attribute__((device, always_inline)) void store(u64 p, u32 a, u32 b) {
		asm volatile("st.volatile.global.v4.u32 [%0], {%1,%2,%3,%2};" ::"l"(p), "r"(a), "r"(flag), "r"(b) : "memory");
	}

	// A Pair has the two LL lines of 16 bytes of data. It is loaded once by look, and there reports whether it has arrived.
	// To wait for it from rank peer there is take.
	struct Pair {
		Line lo, hi;
		__attribute__((device, always_inline)) Line line() { return Line{{lo.w[0], lo.w[2], hi.w[0], hi.w[2]}}; }
	};
	__attribute__((device, always_inline)) Pair look(u64 slot, u64 span, u64 i) { return Pair{watchLine(slot + 16 * i), watchLine(slot + span + 16 * i)}; }
	__attribute__((device, always_inline)) bool there(Pair p) {
		return ((p.lo.w[1] ^ flag) | (p.lo.w[3] ^ flag) | (p.hi.w[1] ^ flag) | (p.hi.w[3] ^ flag)) == 0;
	}
	__attribute__((device, always_inline)) Line take(u64 slot, u64 span, u64 i, u32 peer) {
		Pair p;
		do p = look(slot, span, i);
		while (!there(p) && watch.again(peer));
		return p.line();
	}
	// takeAll waits for line i from every peer and polls all peers at once. The result is in rank order.
	__attribute__((device, always_inline)) void takeAll(Pair (&v)[maxRanks], u64 span, u64 i) {
		u64 first = g.ll[0] + (u64)((flag & 1) * (g.size - 1)) * g.llSlot;
		u32 missing;
		do {
			missing = maxRanks;
#pragma unroll
			for (u32 k = 0; k < maxRanks - 1; k++) {
				if (k + 1 >= g.size) break;
				v[k] = look(first + (u64)k * g.llSlot, span, i);
			}
#pragma unroll
			for (u32 k = 0; k < maxRanks - 1; k++) {
				if (k + 1 >= g.size) break;
				if (!there(v[k])) missing = k < g.rank ? k : k + 1;
			}
		} while (missing < maxRanks && watch.again(missing));
	}
};

// A Deal is one line to or from one rank. Workers are dealt the lines of all ranks from peer index first on at once. The warps
// alternate between the ranks, so that no warp waits for one peer before it serves the next.
struct Deal {
	u32 d, i;
	DEVICE Deal of(const GroupArgs &g, u32 first, u32 w) {
		u32 warp = w / 32, ranks = g.size - first;
		return Deal{first + warp % ranks, warp / ranks * 32 + w % 32};
	}
	// all returns how many deals there are. Deals past a rank's last line are void.
	DEVICE u32 all(const GroupArgs &g, u32 first, const u64 (&bytes)[maxRanks]) {
		u64 most = 1;
		for (u32 d = first; d < g.size; d++) most = larger(most, linesOf(bytes[d]));
		return (u32)(most + 31) / 32 * 32 * (g.size - first);
	}
	// lines returns how many lines a peer is sent, at least one.
	DEVICE u64 lines(u64 bytes) { return larger(linesOf(bytes), 1); }
};
