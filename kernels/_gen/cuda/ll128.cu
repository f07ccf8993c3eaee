// All-reduce by LL128. The file is compiled for each element type and kind, with ELEMENT, OP and WORD set.
#include "fold.h"
#include "ll128.h"

// gather folds, in rank order, chunk i of every peer's slot in this rank's memory, and this rank's own chunk, mine.
DEVICE Line gather(LL128 &r, u64 own, u64 i, Line mine, u32 divisor, u32 number) {
	const GroupArgs &g = r.g;
	Whole s;
	WeightOfLine by = weightOfLines(divisor);
	if constexpr (unrolled) { // poll all slots at once, which are in rank order, until all chunks are there
		Line v[maxRanks];
		u32 missing;
		do {
			missing = maxRanks;
#pragma unroll
			for (u32 k = 0; k < maxRanks - 1; k++) {
				if (k + 1 >= g.size) break;
				v[k] = r.look(r.half(own, number) + k * r.slotBytes, i);
			}
#pragma unroll
			for (u32 k = 0; k < maxRanks - 1; k++) {
				if (k + 1 >= g.size) break;
				if (!r.there(v[k], number)) missing = k < g.rank ? k : k + 1;
			}
		} while (!allLanes(missing == maxRanks) && r.again(missing));
		auto from = [&](u32 q) { return inOrder(q, g.rank, mine, [&](u32 k) { return v[k]; }); };
		s.open(from(0), by);
#pragma unroll
		for (u32 q = 1; q < maxRanks; q++) {
			if (q >= g.size) break;
			s.fold(from(q), by);
		}
	} else {
#pragma unroll 1
		for (u32 q = 0; q < g.size; q++) {
			Line from = q == g.rank ? mine : r.take(r.slot(own, q, g.rank, number), i, q, number);
			if (q == 0) s.open(from, by);
			else s.fold(from, by);
		}
	}
	return s.close(divisor);
}

// all_reduce_ll128 is the one-shot all-reduce. A slot has room for a chunk of each warp. In each step of a warp:
//   1. Load the next chunk.
//   2. Wait for every peer's chunk of the step before, fold all, write the result.
//   3. Send the next chunk to every peer, in the next round where the slot is at its end.
KERNEL void all_reduce_ll128(LL128Args a) {
	const GroupArgs &g = a.group;
	u32 step = (u32)warps();
	Rounds n(a.bytes, a.slot, step);
	LL128 r(g, a.slot, n.rounds);
	r.arrive();
	u32 at = (u32)warp(), number = r.flag; // place and round of the next chunk
	u32 atMine = 0, numberMine = 0;
	Line mine{};
#pragma unroll 1
	for (u32 i = (u32)warp();; i += step) {
		Line next{}; // 1.
		if (i < n.all) next = readChunk(a.in, i, a.bytes);
		// 2.
		if (i >= step) writeChunk(a.out, i - step, gather(r, a.ll128[0], atMine, mine, a.divisor, numberMine), a.bytes);
		if (i >= n.all) break;
		// 3.
#pragma unroll
		for (u32 d = 1; d < maxRanks; d++) {
			if (d >= g.size) break;
			r.put(r.slot(a.ll128[d], g.rank, peerAt(g, d), number), at, next, number);
		}
		mine = next;
		atMine = at;
		numberMine = number;
		at += step;
		if (at >= n.room) {
			at = (u32)warp();
			number++;
		}
	}
	r.finish();
}

// all_reduce_ll128_two_shot is a reduce-scatter and an all-gather in one operation. Twice the chunks of part fit into a slot. Each
// rank has at least one byte of its part to send: bytes > (size-1) × part.
//   1. Send each peer the chunks of its part.
//   2. For each chunk of the own part: wait for every peer's chunk, fold all, send the result to every peer and keep it.
//   3. Wait for the results of all other parts and keep them.
KERNEL void all_reduce_ll128_two_shot(LL128Args a) {
	SHARED ByPeerIndex peers;
	const GroupArgs &g = a.group;
	LL128 r(g, a.slot);
	peers.fill(a.ll128);
	r.arrive(); // which is a barrier, too
	constexpr u32 U = 4; // chunks that are loaded at once
	u32 chunks = (u32)ll128ChunksOf(a.part), all = chunks * (g.size - 1), step = (u32)warps();
	u64 results = (u64)chunks * ll128ChunkBytes;
	auto length = [&](u32 q) { return within(q * a.part, a.part, a.bytes); };
	auto there = [&](u32 w) { return w < all && ll128ChunkData * (u64)(w % chunks) < length(peerAt(g, 1 + w / chunks)); };
	// 1.
#pragma unroll 1
	for (u32 w = (u32)warp(); w < all; w += U * step) {
		Line v[U];
#pragma unroll
		for (u32 u = 0; u < U; u++) {
			u32 x = w + u * step, q = peerAt(g, 1 + x / chunks);
			if (there(x)) v[u] = readChunk(a.in + q * a.part, x % chunks, length(q));
		}
#pragma unroll
		for (u32 u = 0; u < U; u++) {
			u32 x = w + u * step;
			if (there(x)) r.put(r.slot(peers.at[1 + x / chunks], g.rank, peerAt(g, 1 + x / chunks), r.flag), x % chunks, v[u], r.flag);
		}
	}
	u64 own = g.rank * a.part, n = length(g.rank);
	// 2.
#pragma unroll 1
	for (u32 i = (u32)warp(); i < (u32)ll128ChunksOf(n); i += step) {
		Line v = gather(r, peers.at[0], i, readChunk(a.in + own, i, n), a.divisor, r.flag);
#pragma unroll 1
		for (u32 d = 1; d < g.size; d++) r.put(r.slot(peers.at[d], g.rank, peerAt(g, d), r.flag) + results, i, v, r.flag);
		writeChunk(a.out + own, i, v, n);
	}
	// 3.
#pragma unroll 1
	for (u32 w = (u32)warp(); w < all; w += U * step) {
		Line v[U];
		u32 missing;
		do {
			missing = maxRanks;
#pragma unroll
			for (u32 u = 0; u < U; u++) {
				u32 x = w + u * step, q = peerAt(g, 1 + x / chunks);
				if (!there(x)) continue;
				v[u] = r.look(r.slot(peers.at[0], q, g.rank, r.flag) + results, x % chunks);
				if (!r.there(v[u], r.flag)) missing = q;
			}
		} while (!allLanes(missing == maxRanks) && r.again(missing));
#pragma unroll
		for (u32 u = 0; u < U; u++) {
			u32 x = w + u * step, q = peerAt(g, 1 + x / chunks);
			if (there(x)) writeChunk(a.out + q * a.part, x % chunks, v[u], length(q));
		}
	}
	r.finish();
}
