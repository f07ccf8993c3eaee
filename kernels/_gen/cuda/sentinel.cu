// All-reduce by lines: compiled for each element type and kind, with ELEMENT, OP and WORD set.
#include "fold.h"
#include "sentinel.h"

// all_reduce_sentinel: part q goes round from rank q on, each rank adding its own, until the rank before q has the sum; from there it
// goes round once more. A sweep of a warp is all that for some strips of every part. Parts are sent at the length of the first,
// which is the longest.
KERNEL void all_reduce_sentinel(SentinelArgs a) {
	SHARED u32 numbers[sentinelWarps];
	Connection b(a, numbers, block());
	Iterations x(a.part, block(), blocks());
	u32 n = a.group.size;
#pragma unroll 1
	for (u32 iteration = 0; b.on && iteration < x.count; iteration++) {
		u32 chunks = x.has(iteration), q = a.group.rank;
		Line v[slotChunks], own[slotChunks];
		auto read = [&](Line(&to)[slotChunks]) {
			u64 part = q * a.part, bytes = within(part, a.part, a.bytes);
#pragma unroll
			for (u32 u = 0; u < slotChunks; u++) {
				if (u >= chunks) break;
				to[u] = readUser(a.in + part + x.at(iteration, u), within(x.at(iteration, u), 16, bytes));
			}
		};
		read(v);
		b.put(v, chunks);
#pragma unroll 1
		for (u32 s = 1; b.on && s <= 2 * n - 2; s++) { // s times the part has been put
			bool reduces = s < n, whole = s >= n - 1;
			q = q == 0 ? n - 1 : q - 1;
			if (reduces) read(own);
			if (!b.take(v, chunks)) break;
			if (reduces)
#pragma unroll
				for (u32 u = 0; u < slotChunks; u++) {
					if (u >= chunks) break;
					Whole sum;
					sum.open(v[u]);
					sum.fold(own[u]);
					v[u] = sum.close(whole ? a.divisor : 0);
				}
			b.clear(chunks);
			if (b.on && s < 2 * n - 2) b.put(v, chunks);
			u64 part = q * a.part, bytes = within(part, a.part, a.bytes);
			if (whole)
#pragma unroll
				for (u32 u = 0; u < slotChunks; u++) {
					if (u >= chunks) break;
					writeUser(a.out + part + x.at(iteration, u), v[u], within(x.at(iteration, u), 16, bytes));
				}
		}
	}
	b.leave();
}
