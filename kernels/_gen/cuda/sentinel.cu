// All-reduce by the sentinel protocol. The file is compiled for each element type and kind, with ELEMENT, OP and WORD set.
#include "fold.h"
#include "sentinel.h"

// all_reduce_sentinel is a ring all-reduce over n ranks. Part q starts at rank q and goes round the ring. Each rank folds its own
// part into it, until the rank before q has the sum. From there the sum goes round once more. One iteration of a warp does all that
// for some chunks of every part. All parts are sent at the length of the first one, which is the longest.
//   1. Put the own part.
//   2. n-2 steps: take a part, fold the own part into it, put it.
//   3. Step n-1: take a part and fold it. It is the sum now; keep it and put it.
//   4. n-2 steps: take a sum, keep it and put it.
//   5. Step 2n-2: take the last sum and keep it.
// In each step the slot is cleared between fold and put. sentinel.h proves that the next rank's slot is empty.
KERNEL void all_reduce_sentinel(SentinelArgs a) {
	SHARED Numbers numbers;
	Connection b(a, numbers, block());
	Iterations x(a.part, block(), blocks());
	u32 n = a.group.size;
	WeightOfLine by = weightOfLines(a.divisor);
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
		b.put(v, chunks); // 1.
#pragma unroll 1
		for (u32 s = 1; b.on && s <= 2 * n - 2; s++) { // 2. to 5.: the part has been put s times
			bool reduces = s < n, whole = s >= n - 1;
			q = q == 0 ? n - 1 : q - 1;
			if (reduces) read(own);
			if (!b.take(v, chunks)) break;
			if (reduces)
#pragma unroll
				for (u32 u = 0; u < slotChunks; u++) {
					if (u >= chunks) break;
					Whole sum;
					sum.open(v[u], s == 1 ? by : (WeightOfLine)1);
					sum.fold(own[u], by);
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
