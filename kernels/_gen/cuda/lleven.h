// Exchanges by LL of parts of one length, in whole lines at multiples of 16. Most exchanges are such. Each thread has line i
// of all parts, so lines need not be dealt out: no division, no arrays in shared memory. The data lies where
// reduce_scatter_ll and exchange_ll put it. So a rank whose tensors lie at other addresses may take part with those kernels.
#pragma once
#include "ll.h"

// sendEven sends all parts to the peers. It returns the thread's first line of the part that stays on this rank. ownEven returns any
// line of that part.
DEVICE Line sendEven(LL &p, const EvenArgs &a) {
	const GroupArgs &g = p.g;
	u64 lines = a.part / 16, span = g.llSlot / 2;
	Line v[maxRanks], mine{};
	auto read = [&](u64 i) {
#pragma unroll
		for (u32 d = 0; d < maxRanks; d++) {
			if (d >= g.size) break;
			v[d] = loadLine(a.in + peerAt(g, d) * a.step + 16 * i);
		}
	};
	if (worker() < lines) {
		read(worker());
		mine = v[0];
	}
	p.number();
	for (u64 i = worker(); i < lines; i += workers()) {
		if (i != worker()) read(i);
#pragma unroll
		for (u32 d = 1; d < maxRanks; d++) {
			if (d >= g.size) break;
			p.put(p.slot(g.ll[d], g.rank, peerAt(g, d)), span, i, v[d]);
		}
	}
	p.arrive();
	return mine;
}
DEVICE Line ownEven(const EvenArgs &a, u64 i, Line mine) { return i == worker() ? mine : loadLine(a.in + a.group.rank * a.step + 16 * i); }
