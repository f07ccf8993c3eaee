// All-reduce by lines: compiled for each element type and kind, with ELEMENT, OP and WORD set.
#include "fold.h"
#include "lines.h"

// all_reduce_lines: part q goes round from rank q on, each rank adding its own, until the rank before q has the sum; from there it
// goes round once more. A sweep of a warp is all that for some strips of every part. Parts are sent at the length of the first,
// which is the longest.
KERNEL void all_reduce_lines(LinesArgs a) {
	SHARED u32 numbers[lineWarps];
	Belt b(a, numbers, block());
	Sweeps x(a.part, block(), blocks());
	u32 n = a.group.size;
#pragma unroll 1
	for (u32 sweep = 0; b.on && sweep < x.count; sweep++) {
		u32 strips = x.has(sweep), q = a.group.rank;
		Line v[lineStrips], own[lineStrips];
		auto read = [&](Line(&to)[lineStrips]) {
			u64 part = q * a.part, bytes = within(part, a.part, a.bytes);
#pragma unroll
			for (u32 u = 0; u < lineStrips; u++) {
				if (u >= strips) break;
				to[u] = readUser(a.in + part + x.at(sweep, u), within(x.at(sweep, u), 16, bytes));
			}
		};
		read(v);
		b.put(v, strips);
#pragma unroll 1
		for (u32 s = 1; b.on && s <= 2 * n - 2; s++) { // s times the part has been put
			bool reduces = s < n, whole = s >= n - 1;
			q = q == 0 ? n - 1 : q - 1;
			if (reduces) read(own);
			if (!b.take(v, strips)) break;
			if (reduces)
#pragma unroll
				for (u32 u = 0; u < lineStrips; u++) {
					if (u >= strips) break;
					Whole sum;
					sum.open(v[u]);
					sum.fold(own[u]);
					v[u] = sum.close(whole ? a.divisor : 0);
				}
			b.clear(strips);
			if (b.on && s < 2 * n - 2) b.put(v, strips);
			u64 part = q * a.part, bytes = within(part, a.part, a.bytes);
			if (whole)
#pragma unroll
				for (u32 u = 0; u < lineStrips; u++) {
					if (u >= strips) break;
					writeUser(a.out + part + x.at(sweep, u), v[u], within(x.at(sweep, u), 16, bytes));
				}
		}
	}
	b.leave();
}
