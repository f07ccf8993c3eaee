// Follow: copy engines bring slices of parts to the next rank in the ring, and a kernel there goes behind them: it takes each line
// as soon as it is not blank, as lines.h has it, folds or keeps it, and makes it blank again.
//
// An engine does nothing for some microseconds between two copies. So the kernel sends the first bytes of each slice by stores, its
// head, while the engine starts with the rest. It does so when it has taken the slice before, which is about when the engine is
// done. Who takes a slice does not see which of the two sent a line. A rank whose tensors are no multiples of 16 sends all by
// stores, for its engine would not keep lines together, and the end of a tensor that is no whole line goes so as well.
//
// Ring. The steps are a ring's: in step j rank r sends part r-j, and takes part r-j-1, a part cut into as many slices on all ranks. A
// slice that is sent in a step was taken in the one before, at the same place of the part, by the same warps. So what a thread
// sends it has written itself, and a thread needs to know nothing of others but that memory is free. Slices go to two slots by turns.
//
// Chain. From the root on each rank hands a slice on when it has taken it; the last one keeps it. Where nobody takes anything that
// would tell when the engine is done, the next rank does: a head waits until that one has taken the slice before.
//
// The last block is the clerk. It looks how many slices each of the others is through with, and says
//   told  to the rank before: 1 when this kernel runs, so that nothing from before uses the slots; j+2 when all have taken slice j.
//         Slice k may be sent when that has come to k, or to 1: its slot is blank then. The root tells nothing.
//   go    to the copy stream, in a word for each slot: the engine may send its share of slice k. Its slot is free, and all blocks
//         have written what they took of it. The stream makes the word 0 before it copies; so when the next rank has taken that
//         slice, the word is free for slice k+2.
// What nobody will wait for is not said, and the clerk makes all words 0 when it is over. So a replayed graph begins as the first
// run did. The next operation must not begin before all ranks have ended this one: the host has them meet.
//
// Order. A block that is through with a slice passes a barrier, and one thread releases its count; the clerk acquires those of all
// and releases told and go. So blank lines come to memory before what the next one stores there, and what was written before the
// engine reads it.
#pragma once
#include "sentinel.h"

constexpr u32 spanBytes = slotChunks * chunkBytes; // of a warp at a time

// Keep is what is done to lines that are not folded.
struct Keep {
	static constexpr bool folds = false;
	__attribute__((device, always_inline)) Line operator()(Line, Line v, bool) const { return v; }
};

struct FusedKernel {
	struct Slice {
		u64 in, out, bytes; // where it lies, and its length
	};
	const FusedArgs &a;
	ByPeerIndex &ins, &outs;
	u32 per, count; // slices of a part, and of all steps
	u32 own;        // slices that are sent as they were before anything was taken
	bool takes, sends;
	u64 mine, step; // where this warp's lines of a slice begin, and how far they are apart
	u32 from, to;   // ranks
	Watch watch;
	bool on = true; // it was not stopped

	__attribute__((device, always_inline)) FusedKernel(const FusedArgs &a, ByPeerIndex &ins, ByPeerIndex &outs) : a(a), ins(ins), outs(outs), watch{a.group.abort} {
		per = (u32)((a.part + a.slice - 1) / a.slice);
		count = a.steps * per;
		own = a.chain == 0 ? per : a.chain == chainRoot ? count : 0;
		takes = a.chain != chainRoot;
		sends = a.chain != chainLast;
		mine = worker() / 32 * spanBytes;
		step = (u64)(blocks() - 1) * (threads() / 32) * spanBytes;
		from = peerAt(a.group, a.group.size - 1);
		to = peerAt(a.group, 1);
		ins.fill(a.ins);
		outs.fill(a.outs);
		sync();
		awaitBefore();
	}

	// slice returns the one that this rank sends as its k-th, or takes, where taken is 1.
	__attribute__((device, always_inline)) Slice slice(u32 k, u32 taken) {
		u32 d = a.chain != 0 ? 0 : (2 * a.group.size - k / per - taken) % a.group.size;
		u64 part = a.chain != 0 ? 0 : peerAt(a.group, d) * a.part, at = k % per * a.slice;
		return {ins.at[d] + at, outs.at[d] + at, within(at, a.slice, within(part, a.part, a.bytes))};
	}
	// stored returns how many of its first bytes the kernel sends.
	__attribute__((device, always_inline)) u64 stored(Slice s) { return smaller(a.head, s.bytes); }
	// copied reports whether the engine has whole lines left to send.
	__attribute__((device, always_inline)) bool copied(Slice s) { return s.bytes / 16 * 16 > stored(s); }
	__attribute__((device, always_inline)) u64 slot(u64 base, u32 k) { return base + k % 2 * a.slot; }
	__attribute__((device, always_inline)) u64 line(u64 o, u32 u) { return o + chunkBytes * u + 16 * lane(); }
	__attribute__((device, always_inline)) bool again(u32 peer) { return on = allLanes(lane() != 0 || watch.again(peer)); }

	// run is what the blocks do but for the last.
	template <class F> __attribute__((device, always_inline)) void run(F fold) {
		u32 ahead = own != 0 ? 1 : 0;
		if (ahead != 0) send(0);
#pragma unroll 1
		for (u32 k = 0; k < count; k++) {
			if (takes) take(k, fold);
			if (sends && k + ahead < count) send(k + ahead);
			sync();
			if (thread() == 0 && on) releaseWord(a.counts + 4 * block(), k + 1);
		}
	}

	// send stores the head of a slice, and what is behind its last whole line.
	__attribute__((device, always_inline)) void send(u32 k) {
		Slice s = slice(k, 0);
		u64 from = k < own ? s.in : s.out, to = slot(a.next, k), head = stored(s), end = s.bytes / 16 * 16;
		while (on && !free(a.chain != 0 && k != 0 ? k + 1 : k) && again(this->to));
#pragma unroll 1
		for (u64 o = mine; on && o < head; o += step) {
			Line v[slotChunks];
#pragma unroll
			for (u32 u = 0; u < slotChunks; u++) v[u] = readUser(from + line(o, u), within(line(o, u), 16, s.bytes));
#pragma unroll
			for (u32 u = 0; u < slotChunks; u++)
				if (line(o, u) < s.bytes) putLine(to + line(o, u), v[u]);
		}
		if (!on || end == s.bytes || end < head || end / spanBytes * spanBytes % step != mine || end / 16 % 32 != lane()) return;
		putLine(to + end, readUser(from + end, s.bytes - end));
	}

	// take takes a slice.
	template <class F> __attribute__((device, always_inline)) void take(u32 k, F fold) {
		Slice s = slice(k, 1);
		u64 in = slot(a.slots, k);
		bool folds = F::folds && k / per < a.folds, whole = k / per + 1 == a.folds;
#pragma unroll 1
		for (u64 o = mine; on && o < s.bytes; o += step) {
			Line v[slotChunks], own[slotChunks];
			if (folds)
#pragma unroll
				for (u32 u = 0; u < slotChunks; u++) own[u] = readUser(s.in + line(o, u), within(line(o, u), 16, s.bytes));
			if (!await(v, in, o, s.bytes)) return;
#pragma unroll
			for (u32 u = 0; u < slotChunks; u++)
				if (line(o, u) < s.bytes) putLine(in + line(o, u), Line{{a.sentinel[0], a.sentinel[1], a.sentinel[2], a.sentinel[3]}});
#pragma unroll
			for (u32 u = 0; u < slotChunks; u++)
				if (line(o, u) < s.bytes)
					writeUser(s.out + line(o, u), folds ? fold(own[u], v[u], whole) : v[u], within(line(o, u), 16, s.bytes));
		}
	}

	// await waits for a warp's lines. It looks for the last ones first, for they come last. It returns on.
	__attribute__((device, always_inline)) bool await(Line (&v)[slotChunks], u64 in, u64 o, u64 bytes) {
		bool all;
		do all = line(o, slotChunks - 1) >= bytes || !isLine(lookLine(in + line(o, slotChunks - 1)), a.sentinel);
		while (!allLanes(all) && again(from));
		do {
			all = true;
#pragma unroll
			for (u32 u = 0; u < slotChunks; u++)
				if (line(o, u) < bytes) v[u] = lookLine(in + line(o, u));
#pragma unroll
			for (u32 u = 0; u < slotChunks; u++) all = all && (line(o, u) >= bytes || !isLine(v[u], a.sentinel));
		} while (on && !allLanes(all) && again(from));
		return on;
	}

	// through reports whether all blocks have taken n slices, free whether the next rank has room for the k-th.
	__attribute__((device, always_inline)) bool through(u32 n) {
		bool all = true;
		for (u32 b = lane(); b + 1 < blocks(); b += 32) all = all && acquireWord(a.counts + 4 * b) >= n;
		return allLanes(all);
	}
	__attribute__((device, always_inline)) bool free(u32 k) { return allLanes(lane() != 0 || acquireWord(a.credit) >= (k > 1 ? k : 1)); }
	__attribute__((device, always_inline)) void post(u64 at, u32 n) {
		together();
		if (lane() == 0) releaseWord(at, n);
	}

	// steer is what one warp of the last block does. Whom it waits for, the others say.
	__attribute__((device, always_inline)) void signal() {
		u32 taken = 0, gone = sends ? 0 : count, most = a.chain != 0 ? count : count - 1; // that anybody waits for
		if (takes) post(a.prevCredit, 1);
		while (taken < count || gone < count) {
			if (taken < count && through(taken + 1)) {
				taken++;
				if (takes && taken < most) post(a.prevCredit, taken + 1);
			} else if (gone < count && (gone < own || taken > gone - own) && free(gone)) {
				if (copied(slice(gone, 0))) post(a.go + 4 * (gone % 2), 1);
				gone++;
			} else if ((++watch.spins & 65535) == 0 && !allLanes(watchWord(a.group.abort) == 0)) return;
		}
		for (u32 b = lane(); b + 1 < blocks(); b += 32) postWord(a.counts + 4 * b, 0);
		if (lane() == 0) postWord(a.credit, 0);
	}
};

template <class F> DEVICE void fused(const FusedArgs &a, F fold) {
	SHARED ByPeerIndex ins, outs;
	FusedKernel f(a, ins, outs);
	if (block() + 1 < blocks()) f.run(fold);
	else if (thread() < 32) f.signal();
}
