// All-reduce by rows: compiled for each element type and kind, with ELEMENT, OP and WORD set.
#include "fold.h"
#include "rows.h"

// gather folds quad i of every rank's slot, and mine at its place, in rank order.
DEVICE Line gather(Rows &r, u64 slot0, u64 i, Line mine, u32 divisor) {
	const GroupArgs &g = r.g;
	Whole s;
	if constexpr (unrolled) { // look at all slots at once, until all are there
		Line v[maxRanks];
		u32 missing;
		do {
			missing = maxRanks;
#pragma unroll
			for (u32 q = 0; q < maxRanks; q++)
				if (q < g.size && q != g.rank) v[q] = r.look(slot0 + q * r.slotBytes, i);
#pragma unroll
			for (u32 q = 0; q < maxRanks; q++)
				if (q < g.size && q != g.rank && !r.there(v[q])) missing = q;
		} while (!allLanes(missing == maxRanks) && r.again(missing));
#pragma unroll
		for (u32 q = 0; q < maxRanks; q++)
			if (q < g.size) {
				Line from = q == g.rank ? mine : v[q];
				if (q == 0) s.open(from);
				else s.fold(from);
			}
	} else {
#pragma unroll 1
		for (u32 q = 0; q < g.size; q++) {
			Line from = q == g.rank ? mine : r.take(slot0 + q * r.slotBytes, i, q);
			if (q == 0) s.open(from);
			else s.fold(from);
		}
	}
	return s.close(divisor);
}

// all_reduce_rows: every rank sends all its data to every peer, and folds what it gets. The quads of bytes fit into slot.
// A warp folds a quad after it has loaded its next one and before it sends that.
KERNEL void all_reduce_rows(RowsArgs a) {
	const GroupArgs &g = a.group;
	Rows r(g, a.slot);
	r.arrive();
	u64 quads = quadsOf(a.bytes), step = warps(), slot0 = r.slot(a.rows[0], 0);
	Line mine{};
#pragma unroll 1
	for (u64 i = warp();; i += step) {
		Line next{};
		if (i < quads) next = readQuad(a.in, i, a.bytes);
		if (i >= step) writeQuad(a.out, i - step, gather(r, slot0, i - step, mine, a.divisor), a.bytes);
		if (i >= quads) break;
#pragma unroll
		for (u32 d = 1; d < maxRanks; d++)
			if (d < g.size) r.put(r.slot(a.rows[d], g.rank), i, next);
		mine = next;
	}
	r.finish();
}

// all_reduce_rows_two_shot: every rank sends part q to rank q, folds its own part, and sends the result to every peer.
// Twice the quads of part fit into slot, and each rank has at least one byte of it to send: bytes > (size-1) × part.
KERNEL void all_reduce_rows_two_shot(RowsArgs a) {
	SHARED Turned peers;
	const GroupArgs &g = a.group;
	Rows r(g, a.slot);
	peers.fill(a.rows);
	r.arrive(); // which is a barrier, too
	constexpr u32 U = 4; // quads that are asked for at once
	u32 quads = (u32)quadsOf(a.part), all = quads * (g.size - 1), step = (u32)warps();
	u64 results = (u64)quads * quadBytes, slot0 = r.slot(peers.at[0], 0);
	auto length = [&](u32 q) { return within(q * a.part, a.part, a.bytes); };
	auto there = [&](u32 w) { return w < all && quadData * (u64)(w % quads) < length(peerAt(g, 1 + w / quads)); };
#pragma unroll 1
	for (u32 w = (u32)warp(); w < all; w += U * step) {
		Line v[U];
#pragma unroll
		for (u32 u = 0; u < U; u++) {
			u32 x = w + u * step, q = peerAt(g, 1 + x / quads);
			if (there(x)) v[u] = readQuad(a.in + q * a.part, x % quads, length(q));
		}
#pragma unroll
		for (u32 u = 0; u < U; u++) {
			u32 x = w + u * step;
			if (there(x)) r.put(r.slot(peers.at[1 + x / quads], g.rank), x % quads, v[u]);
		}
	}
	u64 own = g.rank * a.part, n = length(g.rank);
#pragma unroll 1
	for (u32 i = (u32)warp(); i < (u32)quadsOf(n); i += step) {
		Line v = gather(r, slot0, i, readQuad(a.in + own, i, n), a.divisor);
#pragma unroll 1
		for (u32 d = 1; d < g.size; d++) r.put(r.slot(peers.at[d], g.rank) + results, i, v);
		writeQuad(a.out + own, i, v, n);
	}
#pragma unroll 1
	for (u32 w = (u32)warp(); w < all; w += U * step) {
		Line v[U];
		u32 missing;
		do {
			missing = maxRanks;
#pragma unroll
			for (u32 u = 0; u < U; u++) {
				u32 x = w + u * step, q = peerAt(g, 1 + x / quads);
				if (!there(x)) continue;
				v[u] = r.look(slot0 + q * r.slotBytes + results, x % quads);
				if (!r.there(v[u])) missing = q;
			}
		} while (!allLanes(missing == maxRanks) && r.again(missing));
#pragma unroll
		for (u32 u = 0; u < U; u++) {
			u32 x = w + u * step, q = peerAt(g, 1 + x / quads);
			if (there(x)) writeQuad(a.out + q * a.part, x % quads, v[u], length(q));
		}
	}
	r.finish();
}
