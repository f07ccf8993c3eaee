// The part that a rank sends to itself.
#pragma once
#include "device.h"

// own copies one half of that part. Blocks of even index copy half 0, before they send. Blocks of odd index copy half 1, when they
// have sent. So some blocks keep the links busy at any time.
DEVICE void own(u64 from, u64 to, u64 bytes, u32 half) {
	if (from == to || block() % 2 != half) return;
	u32 evens = (blocks() + 1) / 2;
	u64 lines = linesOf(bytes), cut = lines * evens / blocks();
	u64 first = half == 0 ? 0 : cut, end = half == 0 ? cut : lines, step = (u64)(half == 0 ? evens : blocks() - evens) * threads();
	constexpr u32 U = 4; // lines that a thread loads before it stores one
	for (u64 i = first + (u64)(block() / 2) * threads() + thread(); i < end; i += U * step) {
		Line v[U];
#pragma unroll
		for (u32 u = 0; u < U; u++)
			if (i + u * step < end) v[u] = readUser(from + 16 * (i + u * step), bytes - 16 * (i + u * step));
#pragma unroll
		for (u32 u = 0; u < U; u++)
			if (i + u * step < end) writeUser(to + 16 * (i + u * step), v[u], bytes - 16 * (i + u * step));
	}
}
