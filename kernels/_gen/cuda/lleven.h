// Exchanges by packets in which all parts are as long, whole lines at multiples of 16: most are. A thread has line i of all parts,
// so that nothing has to be dealt out: no division, no arrays in shared memory. Packets lie where reduce_scatter_ll and
// exchange_ll put them, so a rank whose tensors lie elsewhere may take part by those.
#pragma once
#include "ll.h"

// sendEven sends all. It returns the first line of this thread that goes to this rank itself; ownEven returns any of them.
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
