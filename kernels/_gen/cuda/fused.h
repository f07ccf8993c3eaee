// Fused: copy engines bring slices of parts to the next rank in the ring, while a kernel there takes them. The kernel polls each
// line until it differs from the sentinel, as sentinel.h does. It folds or keeps the line, and clears it.
//
// Head. An engine does nothing for some microseconds between two copies. So the kernel sends the first bytes of each slice, its
// head, by stores while the engine starts with the rest. It sends the head when it has taken the slice before, about when the
// engine is done. The receiver does not see whether the kernel or the engine sent a line. If a rank's tensors are not at
// multiples of 16, its kernel sends everything, for the engine would not keep lines together. The kernel also sends a
// tensor's last bytes where they are no whole line.
//
// Ring. The steps are those of a ring: in step j rank r sends part r-j and takes part r-j-1. All ranks cut a part into the same
// number of slices. A slice that is sent in one step was taken in the step before, at the same offset, by the same warps. So a
// thread sends only lines that it has written itself. All it needs to know of others is that the next rank's slot is empty.
// Slices alternate between two slots.
//
// Chain. From the root on, each rank hands a slice on when it has taken it, and the last rank keeps it. In a chain no
// arriving slice shows a rank when its engine is done. The next rank shows it: a head waits until that rank has taken the
// slice before.
//
// The last block is the signalling block. It watches how many slices each other block has finished, and signals two things:
//   credit  to the rank before. Credit 1 says that this kernel runs, so no operation before uses the slots. Credit j+2 says that
//           all blocks have taken slice j. Slice k may be sent at credit k, or 1: its slot is empty then. The root sends none.
//   go      to the copy stream, one word for each slot. It says that the engine may send its share of slice k: the slot is empty,
//           and all blocks have written the lines of slice k that they took. The stream resets the word before it copies.
//           When the next rank has taken that slice, the word is therefore free for slice k+2.
// A credit that no rank will wait for is not sent, and at the end the signalling block resets all words. So a replayed graph
// begins as the first run did. The next operation must not begin before all ranks have ended this one: the host has them meet.
//
// Order. A block that has finished a slice passes a barrier, and one thread releases its count. The signalling block
// acquires all counts and releases credit and go. So cleared lines have reached memory before the next slice is stored over
// them, and written lines before the engine reads them.
#pragma once
#include "sentinel.h"

constexpr u32 spanBytes = slotChunks * chunkBytes; // bytes that a warp moves at a time

// Keep stands in for a fold where lines are only moved.
struct Keep {
	static constexpr bool folds = false;
	__attribute__((device, always_inline)) Line operator()(Line, Line v, bool, bool) const { return v; }
};

struct FusedKernel {
	struct Slice {
		u64 in, out, bytes; // addresses in input and output, and length
	};
	const FusedArgs &a;
	ByPeerIndex &ins, &outs;
	u32 per, count; // slices of a part, and of all steps
	u32 own;        // slices that are sent from the input, before any was taken
	bool takes, sends;
	u64 mine, step; // offset of this warp's first span in a slice, and from span to span
	u32 from, to;   // the ranks before and after this one
	Watch watch;
	bool on; // false when this warp was aborted, and from the next slice on when another warp of the block was

	__attribute__((device, always_inline)) FusedKernel(const FusedArgs &a, ByPeerIndex &ins, ByPeerIndex &outs)
		: a(a), ins(ins), outs(outs), watch{a.group.state, a.group.abort} {
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
		awaitBefore();
		agree(thread() != 0 || watch.left() == 0);
	}
	// agree is a barrier, by which the block goes on or stops as one.
	__attribute__((device, always_inline)) bool agree(bool goes) { return on = __nvvm_bar0_and(goes) != 0; }

	// slice returns the k-th slice that this rank sends, or with taken = 1 the k-th that it takes.
	__attribute__((device, always_inline)) Slice slice(u32 k, u32 taken) {
		u32 d = a.chain != 0 ? 0 : (2 * a.group.size - k / per - taken) % a.group.size;
		u64 part = a.chain != 0 ? 0 : peerAt(a.group, d) * a.part, at = k % per * a.slice;
		return {ins.at[d] + at, outs.at[d] + at, within(at, a.slice, within(part, a.part, a.bytes))};
	}
	// stored returns how many of a slice's first bytes the kernel sends.
	__attribute__((device, always_inline)) u64 stored(Slice s) { return smaller(a.head, s.bytes); }
	// copied reports whether the engine has whole lines left to send.
	__attribute__((device, always_inline)) bool copied(Slice s) { return s.bytes / 16 * 16 > stored(s); }
	__attribute__((device, always_inline)) u64 slot(u64 base, u32 k) { return base + k % 2 * a.slot; }
	__attribute__((device, always_inline)) u64 line(u64 o, u32 u) { return o + chunkBytes * u + 16 * lane(); }
	__attribute__((device, always_inline)) bool again(u32 peer) { return on = allLanes(lane() != 0 || watch.again(peer)); }

	// run is what all blocks do but the signalling block. For each slice:
	//   1. Before the first slice: send the head of the first own slice.
	//   2. Take the slice from its slot.
	//   3. Send the head of the slice that leaves next.
	//   4. Release the count of slices that this block has finished, if no warp of it was aborted.
	template <class F> __attribute__((device, always_inline)) void run(F fold) {
		u32 ahead = own != 0 ? 1 : 0;
		if (ahead != 0) send(0); // 1.
#pragma unroll 1
		for (u32 k = 0; k < count; k++) {
			if (takes) take(k, fold); // 2.
			if (sends && k + ahead < count) send(k + ahead); // 3.
			if (!agree(on)) return; // 4.
			if (thread() == 0) releaseWord(a.counts + 4 * block(), k + 1);
		}
	}

	// send stores the head of a slice:
	//   1. Wait for credit, which says that the slot is empty.
	//   2. Store the warp's spans of the head.
	//   3. One lane stores the bytes behind the slice's last whole line, if there are any.
	__attribute__((device, always_inline)) void send(u32 k) {
		Slice s = slice(k, 0);
		u64 from = k < own ? s.in : s.out, to = slot(a.next, k), head = stored(s), end = s.bytes / 16 * 16;
		// 1.
		while (on && !free(a.chain != 0 && k != 0 ? k + 1 : k) && again(this->to));
		// 2.
#pragma unroll 1
		for (u64 o = mine; on && o < head; o += step) {
			Line v[slotChunks];
#pragma unroll
			for (u32 u = 0; u < slotChunks; u++) v[u] = readUser(from + line(o, u), within(line(o, u), 16, s.bytes));
#pragma unroll
			for (u32 u = 0; u < slotChunks; u++)
				if (line(o, u) < s.bytes) putLine(to + line(o, u), v[u]);
		}
		// 3.
		if (!on || end == s.bytes || end < head || end / spanBytes * spanBytes % step != mine || end / 16 % 32 != lane()) return;
		putLine(to + end, readUser(from + end, s.bytes - end));
	}

	// take takes a slice, span by span:
	//   1. Read the own lines that are folded.
	//   2. Wait for the lines of the slot.
	//   3. Clear them.
	//   4. Fold, and write the result to the output.
	template <class F> __attribute__((device, always_inline)) void take(u32 k, F fold) {
		Slice s = slice(k, 1);
		u64 in = slot(a.slots, k);
		bool folds = F::folds && k / per < a.folds, first = k / per == 0, whole = k / per + 1 == a.folds;
#pragma unroll 1
		for (u64 o = mine; on && o < s.bytes; o += step) {
			Line v[slotChunks], own[slotChunks];
			if (folds) // 1.
#pragma unroll
				for (u32 u = 0; u < slotChunks; u++) own[u] = readUser(s.in + line(o, u), within(line(o, u), 16, s.bytes));
			if (!await(v, in, o, s.bytes)) return; // 2.
			// 3.
#pragma unroll
			for (u32 u = 0; u < slotChunks; u++)
				if (line(o, u) < s.bytes) putLine(in + line(o, u), Line{{a.sentinel[0], a.sentinel[1], a.sentinel[2], a.sentinel[3]}});
			// 4.
#pragma unroll
			for (u32 u = 0; u < slotChunks; u++)
				if (line(o, u) < s.bytes)
					writeUser(s.out + line(o, u), folds ? fold(own[u], v[u], first, whole) : v[u], within(line(o, u), 16, s.bytes));
		}
	}

	// await waits for a warp's lines. It polls the last ones first, for they come last. It returns on.
	__attribute__((device, always_inline)) bool await(Line (&v)[slotChunks], u64 in, u64 o, u64 bytes) {
		bool all;
		do all = line(o, slotChunks - 1) >= bytes || !isLine(watchLine(in + line(o, slotChunks - 1)), a.sentinel);
		while (!allLanes(all) && again(from));
		do {
			all = true;
#pragma unroll
			for (u32 u = 0; u < slotChunks; u++)
				if (line(o, u) < bytes) v[u] = watchLine(in + line(o, u));
#pragma unroll
			for (u32 u = 0; u < slotChunks; u++) all = all && (line(o, u) >= bytes || !isLine(v[u], a.sentinel));
		} while (on && !allLanes(all) && again(from));
		return on;
	}

	// through reports whether all blocks have finished n slices, free whether the next rank's slot is empty for slice k.
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

	// signal is what one warp of the signalling block does. It need not name a late rank, for the other blocks do.
	//   1. Give credit 1: this kernel runs.
	//   2. When all blocks have finished a slice, give credit for its slot, if a rank waits for it.
	//   3. When a slice may leave, set go for the copy stream, if the engine has a share of it.
	//   4. At the end, reset the counts and the credit word.
	__attribute__((device, always_inline)) void signal() {
		u32 taken = 0, gone = sends ? 0 : count, most = a.chain != 0 ? count : count - 1; // the credits that a rank waits for
		if (takes) post(a.prevCredit, 1); // 1.
		while (taken < count || gone < count) {
			if (taken < count && through(taken + 1)) { // 2.
				taken++;
				if (takes && taken < most) post(a.prevCredit, taken + 1);
			} else if (gone < count && (gone < own || taken > gone - own) && free(gone)) { // 3.
				if (copied(slice(gone, 0))) post(a.go + 4 * (gone % 2), 1);
				gone++;
			} else if ((++watch.spins & 65535) == 0 && !allLanes(watchWord(a.group.abort) == 0)) {
				watch.stop();
				return;
			}
		}
		// 4.
		for (u32 b = lane(); b + 1 < blocks(); b += 32) postWord(a.counts + 4 * b, 0);
		if (lane() == 0) postWord(a.credit, 0);
	}
};

template <class F> DEVICE void fused(const FusedArgs &a, F fold) {
	SHARED ByPeerIndex ins, outs;
	FusedKernel f(a, ins, outs);
	if (!f.on) return;
	if (block() + 1 < blocks()) f.run(fold);
	else if (thread() < 32) f.signal();
}
