// LL128: lines of 128 bytes that carry 120 bytes of data and prove themselves by 8 bytes of flag. Eight threads of a warp store such
// a line with one instruction. NVLink and the memory behind it keep 128 aligned bytes together that were stored together, as
// NCCL's protocol of the same name relies on. So no fence and no barrier is needed. A sixteenth of the bandwidth is lost,
// where LL loses half.
//
// A warp always moves a warp chunk, four LL128 lines with 480 bytes of data, and stays together meanwhile. A tensor's last chunk may
// be short, but the LL128 lines that are stored are always whole.
//
// LL128 memory of a rank has two halves, each with one slot for each peer. Operations alternate between the halves by their
// number. A half is free for the reason given in ll.h: every rank sends to every other, or shows the same (ll128chain.h). Only
// LL128 lines are ever stored there, so flags lie where flags lay before. A warp that was aborted puts nothing.
//
// Data that does not fit into a slot goes in rounds. The rounds have numbers as if they were operations. In every round the same
// warps have the same places in the slot. In the last round every warp has a chunk; chunks behind the tensor's end are empty.
//   Within an operation: a warp puts a chunk after it has taken the peer's chunk of the step before. The peer's warp had put that
//   one after it had taken all chunks of this rank up to two steps before. A place is used again two rounds later, which is at
//   least two steps later.
//   From one operation to the next: a rank that leaves has taken every warp's last chunk. It was put after all chunks that this
//   rank had put before it were taken. So a peer may still have last chunks to take, of the last round alone, and the next
//   operation begins in the other half.
#pragma once
#include "watch.h"

constexpr u32 ll128ChunkBytes = 512, ll128ChunkData = 480;

// Warp chunks are dealt to the warps of the grid.
DEVICE u64 warp() { return worker() / 32; }
DEVICE u64 warps() { return workers() / 32; }
DEVICE u64 ll128ChunksOf(u64 bytes) { return (bytes + ll128ChunkData - 1) / ll128ChunkData; }

// laneAt returns where this lane's 16 bytes of chunk i begin in a tensor. The lane that holds the flag has 8 bytes of data.
DEVICE u64 laneAt(u64 i) { return ll128ChunkData * i + lane() / 8 * 120 + lane() % 8 * 16; }
DEVICE bool holdsFlag() { return lane() % 8 == 7; }

// Rounds has the number of chunks that all warps move, the number of rounds, and the places for chunks in one round.
struct Rounds {
	u32 all, room, rounds = 1;
	__attribute__((device, always_inline)) Rounds(u64 bytes, u32 slot, u32 step) : all((u32)ll128ChunksOf(bytes)), room(slot / ll128ChunkBytes) {
		if (all <= room) return;
		room = room / step * step;
		all = (all + step - 1) / step * step;
		rounds = (all + room - 1) / room;
	}
};

struct Half {
	u32 w[2];
};

// readHalf loads 8 bytes of user memory at any address, writeHalf stores them. At most left bytes are there.
DEVICE Half readHalf(u64 p, u64 left) {
	Half v{};
	if (left >= 8 && p % 8 == 0) {
		asm volatile("ld.global.v2.u32 {%0,%1}, [%2];" : "=r"(v.w[0]), "=r"(v.w[1]) : "l"(p));
		return v;
	}
	if (left >= 8 && p % 4 == 0) return Half{{loadWord(p), loadWord(p + 4)}};
	u64 n = left < 8 ? left : 8, x = 0;
#pragma unroll 1
	for (u64 i = n; i-- > 0;) x = x << 8 | loadByte(p + i);
	return Half{{(u32)x, (u32)(x >> 32)}};
}

DEVICE void writeHalf(u64 p, Half v, u64 left) {
	if (left >= 8 && p % 8 == 0) {
		asm volatile("st.global.v2.u32 [%0], {%1,%2};" ::"l"(p), "r"(v.w[0]), "r"(v.w[1]) : "memory");
		return;
	}
	if (left >= 8 && p % 4 == 0) {
		storeWord(p, v.w[0]);
		storeWord(p + 4, v.w[1]);
		return;
	}
	u64 n = left < 8 ? left : 8, x = v.w[0] | (u64)v.w[1] << 32;
#pragma unroll 1
	for (u64 i = 0; i < n; i++, x >>= 8) storeByte(p + i, (u32)x & 0xff);
}

// readChunk returns this lane's bytes of chunk i of a tensor. Bytes behind the tensor's end are 0.
DEVICE Line readChunk(u64 p, u64 i, u64 bytes) {
	u64 at = laneAt(i);
	Half lo{}, hi{};
	if (at < bytes) lo = readHalf(p + at, bytes - at);
	if (!holdsFlag() && at + 8 < bytes) hi = readHalf(p + at + 8, bytes - at - 8);
	return Line{{lo.w[0], lo.w[1], hi.w[0], hi.w[1]}};
}

DEVICE void writeChunk(u64 p, u64 i, Line v, u64 bytes) {
	u64 at = laneAt(i);
	if (at < bytes) writeHalf(p + at, Half{{v.w[0], v.w[1]}}, bytes - at);
	if (!holdsFlag() && at + 8 < bytes) writeHalf(p + at + 8, Half{{v.w[2], v.w[3]}}, bytes - at - 8);
}

struct LL128 {
	const GroupArgs &g;
	u64 slotBytes;
	u32 flag, last, before = 0; // flag is the number of the first round, last that of the last
	Watch watch;
	bool on; // neither the warp was aborted nor a kernel before this one

	// The operation's number is counted as in ll.h, by two words of its own, and arrive may come at any time. Where the numbers
	// of the rounds would pass 0, they begin anew, in the half where they would have begun.
	__attribute__((device, always_inline)) LL128(const GroupArgs &g, u64 slotBytes, u32 rounds = 1) : g(g), slotBytes(slotBytes), watch{g.state, g.abort} {
		awaitBefore();
		Line words = watchLine(g.state);
		flag = words.w[2] + 1;
		on = allLanes(words.w[abortedAt / 4] == 0);
		if (flag == 0 || flag + rounds - 1 < flag) flag = 2 + (flag & 1);
		last = flag + rounds - 1;
	}
	__attribute__((device, always_inline)) void arrive() {
		if (__nvvm_bar0_and((int)flag) != 0 && thread() == 0)
			asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(g.state + 12) : "memory");
	}
	__attribute__((device, always_inline)) void finish() {
		if (thread() != 0 || before != blocks() - 1) return;
		postWord(g.state + 12, 0);
		postWord(g.state + 8, last);
	}

	// half returns where the slots of a round lie in the LL128 memory at base. Within it, slot returns where the lines of
	// rank from lie in the memory of rank to.
	__attribute__((device, always_inline)) u64 half(u64 base, u32 number) { return base + (number & 1) * (g.size - 1) * slotBytes; }
	__attribute__((device, always_inline)) u64 slot(u64 base, u32 from, u32 to, u32 number) { return half(base, number) + slotOf(from, to) * slotBytes; }

	// put stores a chunk as chunk i of a slot, if the warp is on. All lanes call it together.
	__attribute__((device, always_inline)) void put(u64 slot, u64 i, Line v, u32 number) {
		if (!on) return;
		if (holdsFlag()) v.w[2] = v.w[3] = number;
		together();
		asm volatile("st.volatile.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(slot + ll128ChunkBytes * i + 16 * lane()), "r"(v.w[0]), "r"(v.w[1]),
					 "r"(v.w[2]), "r"(v.w[3])
					 : "memory");
	}

	// look loads this lane's part of chunk i once, and there reports whether it has arrived.
	__attribute__((device, always_inline)) Line look(u64 slot, u64 i) {
		together();
		return watchLine(slot + ll128ChunkBytes * i + 16 * lane());
	}
	__attribute__((device, always_inline)) bool there(Line v, u32 number) { return !holdsFlag() || ((v.w[2] ^ number) | (v.w[3] ^ number)) == 0; }

	// again reports to all lanes alike whether to poll once more, and sets on. missing is the rank that this lane waits for, or maxRanks.
	__attribute__((device, always_inline)) bool again(u32 missing) {
		bool more = true;
		if (missing < maxRanks) more = watch.again(missing);
		return on = allLanes(on && more);
	}

	// take waits for chunk i from rank peer.
	__attribute__((device, always_inline)) Line take(u64 slot, u64 i, u32 peer, u32 number) {
		Line v;
		bool here;
		do {
			v = look(slot, i);
			here = there(v, number);
		} while (!allLanes(here) && again(here ? maxRanks : peer));
		return v;
	}
};
