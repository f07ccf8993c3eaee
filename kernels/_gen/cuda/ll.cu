// The reducing collectives by LL. The file is compiled for each element type and kind, with ELEMENT, OP and WORD set. The blocks
// have at most 256 threads: with 512, some registers would spill to memory.
#include "lleven.h"
#include "fold.h"

// gather folds, in rank order, line i of every peer's slot in this rank's memory, and this rank's own line, mine.
DEVICE Line gather(LL &p, u64 span, u64 i, Line mine, u32 divisor) {
	const GroupArgs &g = p.g;
	Whole s;
	WeightOfLine by = weightOfLines(divisor);
	if constexpr (unrolled) {
		LL::Pair v[maxRanks];
		p.takeAll(v, span, i);
		auto from = [&](u32 q) { return inOrder(q, g.rank, mine, [&](u32 k) { return v[k].line(); }); };
		s.open(from(0), by);
#pragma unroll
		for (u32 q = 1; q < maxRanks; q++) {
			if (q >= g.size) break;
			s.fold(from(q), by);
		}
	} else {
#pragma unroll 1
		for (u32 q = 0; q < g.size; q++) {
			Line from = q == g.rank ? mine : p.take(p.slot(g.ll[0], q, g.rank), span, i, q);
			if (q == 0) s.open(from, by);
			else s.fold(from, by);
		}
	}
	return s.close(divisor);
}

// all_reduce_ll is the one-shot all-reduce. bytes is at most half of llSlot.
//   1. Load the thread's first line while the operation's number is on its way.
//   2. Send every line to every peer.
//   3. For each line: wait for every peer's line, fold all, write the result.
KERNEL_OF(256, 1) void all_reduce_ll(AllReduceArgs a) {
	const GroupArgs &g = a.group;
	LL p(g);
	u64 lines = linesOf(a.bytes), span = g.llSlot / 2;
	Line first{}; // 1. mostly a thread has one line
	if (worker() < lines) first = readUser(a.in + 16 * worker(), a.bytes - 16 * worker());
	p.number();
	for (u64 i = worker(); i < lines; i += workers()) { // 2.
		p.putAll(span, i, i == worker() ? first : readUser(a.in + 16 * i, a.bytes - 16 * i));
	}
	p.arrive();
	for (u64 i = worker(); i < lines; i += workers()) { // 3.
		u64 left = a.bytes - 16 * i;
		Line mine = i == worker() ? first : readUser(a.in + 16 * i, left);
		writeUser(a.out + 16 * i, gather(p, span, i, mine, a.divisor), left);
	}
	p.finish();
}

// all_reduce_ll_two_shot is a reduce-scatter and an all-gather in one operation. part is at most a quarter of llSlot. Each rank has
// at least one line of its part to send: bytes > (size-1) × part.
//   1. Send each peer the lines of its part.
//   2. For each line of the own part: wait for every peer's line, fold all, send the result to every peer and keep it.
//   3. Wait for the results of all other parts and keep them.
KERNEL_OF(256, 1) void all_reduce_ll_two_shot(AllReduceArgs a) {
	SHARED ByPeerIndex peers;
	const GroupArgs &g = a.group;
	peers.fill(g.ll);
	sync();
	LL p(g);
	p.number();
	u64 span = g.llSlot / 4, results = 2 * span;
	u32 lines = (u32)(a.part / 16), others = g.size - 1;
	// 1.
	for (u32 w = (u32)worker(); w < lines * others; w += (u32)workers()) {
		u32 d = 1 + w / lines, i = w % lines;
		u64 at = peerAt(g, d) * a.part + 16ul * i;
		if (at < a.bytes) p.put(p.slot(peers.at[d], g.rank, peerAt(g, d)), span, i, readUser(a.in + at, a.bytes - at));
	}
	p.arrive();
	// 2.
	for (u32 i = (u32)worker(); i < lines; i += (u32)workers()) {
		u64 at = g.rank * a.part + 16ul * i;
		if (at >= a.bytes) break;
		Line v = gather(p, span, i, readUser(a.in + at, a.bytes - at), a.divisor);
#pragma unroll 1
		for (u32 d = 1; d < g.size; d++) p.put(p.slot(peers.at[d], g.rank, peerAt(g, d)) + results, span, i, v);
		writeUser(a.out + at, v, a.bytes - at);
	}
	// 3.
	for (u32 w = (u32)worker(); w < lines * others; w += (u32)workers()) {
		u32 q = peerAt(g, 1 + w / lines), i = w % lines;
		u64 at = q * a.part + 16ul * i;
		u64 slot = p.slot(peers.at[0], q, g.rank) + results;
		if (at < a.bytes) writeUser(a.out + at, p.take(slot, span, i, q), a.bytes - at);
	}
	p.finish();
}

// reduce_scatter_ll takes parts of any length, each at most half of llSlot. A reduce to a root is the same with one part that is
// not empty.
//   1. Load the thread's first line to send and its first own line while the operation's number is on its way.
//   2. Send each peer the lines of its part.
//   3. For each line of the own part: wait for every peer's line, fold all, write the result.
KERNEL_OF(256, 1) void reduce_scatter_ll(ReduceScatterArgs a) {
	SHARED ByPeerIndex peers, offset, bytes;
	const GroupArgs &g = a.group;
	peers.fill(g.ll);
	offset.fill(a.offset);
	bytes.fill(a.bytes);
	sync();
	LL p(g);
	u64 span = g.llSlot / 2, mine = a.in + a.offset[0], lines = Deal::lines(a.bytes[0]);
	u32 deals = Deal::all(g, 1, bytes.at);
	auto outgoing = [&](Deal x) { return readUser(a.in + offset.at[x.d] + 16 * x.i, within(16 * x.i, 16, bytes.at[x.d])); };
	Line own{}, first{}; // 1. mostly a thread has one line of each
	if (Deal x = Deal::of(g, 1, (u32)worker()); worker() < deals && x.i < Deal::lines(bytes.at[x.d])) first = outgoing(x);
	if (worker() < lines) own = readUser(mine + 16 * worker(), within(16 * worker(), 16, a.bytes[0]));
	p.number();
	// 2.
	for (u32 w = (u32)worker(); w < deals; w += (u32)workers())
		if (Deal x = Deal::of(g, 1, w); x.i < Deal::lines(bytes.at[x.d]))
			p.put(p.slot(peers.at[x.d], g.rank, peerAt(g, x.d)), span, x.i, w == worker() ? first : outgoing(x));
	p.arrive();
	// 3.
	for (u64 i = worker(); i < lines; i += workers()) {
		u64 left = within(16 * i, 16, a.bytes[0]);
		Line v = i == worker() ? own : readUser(mine + 16 * i, left);
		writeUser(a.out + 16 * i, gather(p, span, i, v, a.divisor), left);
	}
	p.finish();
}

// reduce_scatter_ll_even reduces and scatters parts of one length, by LL.
//   1. Send each peer its part.
//   2. For each line of the own part: wait for every peer's line, fold all, write the result.
KERNEL_OF(256, 1) void reduce_scatter_ll_even(EvenArgs a) {
	const GroupArgs &g = a.group;
	LL p(g);
	Line mine = sendEven(p, a); // 1.
	// 2.
	for (u64 i = worker(); i < a.part / 16; i += workers())
		storeLine(a.out + 16 * i, gather(p, g.llSlot / 2, i, ownEven(a, i, mine), a.divisor));
	p.finish();
}
