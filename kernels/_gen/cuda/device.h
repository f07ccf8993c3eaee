// The device as the kernels see it, without CUDA's headers: indices, barriers, and global memory by address.
#pragma once

using u8 = unsigned char;
using i8 = signed char;
using u16 = unsigned short;
using i16 = short;
using u32 = unsigned int;
using i32 = int;
using u64 = unsigned long;
using i64 = long;

#define DEVICE static inline __attribute__((device, always_inline))
#define SHARED __attribute__((shared))
#define KERNEL extern "C" __attribute__((global, launch_bounds(512)))

// KERNEL_OF says how many blocks of a kernel fit on a multiprocessor. Where nothing says so, the driver's compiler may spill registers to make
// room for one more.
#define KERNEL_OF(threads, blocks) extern "C" __attribute__((global, launch_bounds(threads, blocks)))

DEVICE u32 thread() { return __nvvm_read_ptx_sreg_tid_x(); }
DEVICE u32 threads() { return __nvvm_read_ptx_sreg_ntid_x(); }
DEVICE u32 block() { return __nvvm_read_ptx_sreg_ctaid_x(); }
DEVICE u32 blocks() { return __nvvm_read_ptx_sreg_nctaid_x(); }
DEVICE u64 worker() { return (u64)block() * threads() + thread(); }
DEVICE u64 workers() { return (u64)blocks() * threads(); }
DEVICE void sync() { __syncthreads(); }

// All lanes of a warp call the following functions together.
DEVICE u32 lane() { return thread() % 32; }
DEVICE void together() { asm volatile("bar.warp.sync 0xffffffff;" ::: "memory"); }
DEVICE bool allLanes(bool b) {
	u32 all;
	asm volatile("{\n\t.reg .pred p, q;\n\tsetp.ne.u32 p, %1, 0;\n\tvote.sync.all.pred q, p, 0xffffffff;\n\tselp.u32 %0, 1, 0, q;\n\t}" : "=r"(all) : "r"((u32)b));
	return all != 0;
}

// awaitBefore comes before the first access to memory in kernels that may be launched ahead. It waits until everything before the
// kernel on its stream has ended and is visible. Go (Module.AheadPTX) replaces the pragma by the instruction on devices that have
// it. On other devices no kernel begins early.
DEVICE void awaitBefore() { asm volatile(".pragma \"griddepcontrol.wait\";" ::: "memory"); }

// afresh hides from the compiler that v is unchanged. Else the compiler would compute before a loop every value that depends on v, for
// each unrolled copy of the body. There are too few registers for that.
template <class T> DEVICE void afresh(T &v) {
	if constexpr (sizeof(T) == 8) asm volatile("" : "+l"(v));
	else asm volatile("" : "+r"(v));
}

// Line has the 16 bytes of the widest access.
struct Line {
	u32 w[4];
};

// Every access to global memory is one of these. They are volatile so that none moves across a barrier or a flag.
DEVICE Line loadLine(u64 p) {
	Line v;
	asm volatile("ld.global.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.w[0]), "=r"(v.w[1]), "=r"(v.w[2]), "=r"(v.w[3]) : "l"(p));
	return v;
}

// streamLine loads a line of data that is read once.
DEVICE Line streamLine(u64 p) {
	Line v;
	asm volatile("ld.global.cs.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.w[0]), "=r"(v.w[1]), "=r"(v.w[2]), "=r"(v.w[3]) : "l"(p));
	return v;
}

DEVICE void storeLine(u64 p, Line v) {
	asm volatile("st.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(p), "r"(v.w[0]), "r"(v.w[1]), "r"(v.w[2]), "r"(v.w[3]) : "memory");
}

DEVICE u32 loadWord(u64 p) {
	u32 v;
	asm volatile("ld.global.u32 %0, [%1];" : "=r"(v) : "l"(p));
	return v;
}

DEVICE void storeWord(u64 p, u32 v) { asm volatile("st.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory"); }

DEVICE u32 loadByte(u64 p) {
	u32 v;
	asm volatile("ld.global.u8 %0, [%1];" : "=r"(v) : "l"(p));
	return v;
}

DEVICE void storeByte(u64 p, u32 v) { asm volatile("st.global.u8 [%0], %1;" ::"l"(p), "r"(v) : "memory"); }

// elementAt reads an element, putElement writes one.
template <class Raw> DEVICE Raw elementAt(u64 p) {
	Raw r = 0;
	if constexpr (sizeof(r) == 1) r = (Raw)loadByte(p);
	if constexpr (sizeof(r) == 2) asm volatile("ld.global.u16 %0, [%1];" : "=h"(r) : "l"(p));
	if constexpr (sizeof(r) == 4) r = loadWord(p);
	if constexpr (sizeof(r) == 8) asm volatile("ld.global.u64 %0, [%1];" : "=l"(r) : "l"(p));
	return r;
}
template <class Raw> DEVICE void putElement(u64 p, Raw r) {
	if constexpr (sizeof(r) == 1) storeByte(p, r);
	if constexpr (sizeof(r) == 2) asm volatile("st.global.u16 [%0], %1;" ::"l"(p), "h"(r) : "memory");
	if constexpr (sizeof(r) == 4) storeWord(p, r);
	if constexpr (sizeof(r) == 8) asm volatile("st.global.u64 [%0], %1;" ::"l"(p), "l"(r) : "memory");
}

// watchWord, watchPair, watchLine and postWord are for words that a peer or the host reads or writes at the same time.
DEVICE u32 watchWord(u64 p) {
	u32 v;
	asm volatile("ld.volatile.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
	return v;
}

DEVICE void watchPair(u64 p, u32 &first, u32 &second) {
	asm volatile("ld.volatile.global.v2.u32 {%0,%1}, [%2];" : "=r"(first), "=r"(second) : "l"(p) : "memory");
}

DEVICE Line watchLine(u64 p) {
	Line v;
	asm volatile("ld.volatile.global.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.w[0]), "=r"(v.w[1]), "=r"(v.w[2]), "=r"(v.w[3]) : "l"(p) : "memory");
	return v;
}

DEVICE void postWord(u64 p, u32 v) { asm volatile("st.volatile.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory"); }

// wordInMemory returns a word as memory has it, after all that this thread has stored there before. A load may find it on the way.
DEVICE u32 wordInMemory(u64 p) {
	u32 v;
	asm volatile("atom.relaxed.sys.global.or.b32 %0, [%1], 0;" : "=r"(v) : "l"(p) : "memory");
	return v;
}

// releaseWord stores a word after all accesses that this thread knows of. acquireWord loads a word before all later accesses.
DEVICE void releaseWord(u64 p, u32 v) { asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory"); }

DEVICE u32 acquireWord(u64 p) {
	u32 v;
	asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
	return v;
}

// readUser loads the line at p, of any alignment. Only the first left bytes exist, and the others are 0.
DEVICE Line readUser(u64 p, u64 left) {
	if (left >= 16 && p % 16 == 0) return loadLine(p);
	Line v{};
	if (left >= 16 && p % 4 == 0) {
#pragma unroll
		for (int i = 0; i < 4; i++) v.w[i] = loadWord(p + 4 * i);
		return v;
	}
	u64 n = left < 16 ? left : 16, lo = 0, hi = 0;
#pragma unroll 1
	for (u64 i = n; i-- > 0;) {
		hi = hi << 8 | lo >> 56;
		lo = lo << 8 | loadByte(p + i);
	}
	return Line{{(u32)lo, (u32)(lo >> 32), (u32)hi, (u32)(hi >> 32)}};
}

// writeUser writes the first left bytes of v to p, of any alignment.
DEVICE void writeUser(u64 p, Line v, u64 left) {
	if (left >= 16 && p % 16 == 0) {
		storeLine(p, v);
		return;
	}
	if (left >= 16 && p % 4 == 0) {
#pragma unroll
		for (int i = 0; i < 4; i++) storeWord(p + 4 * i, v.w[i]);
		return;
	}
	u64 n = left < 16 ? left : 16, lo = v.w[0] | (u64)v.w[1] << 32, hi = v.w[2] | (u64)v.w[3] << 32;
#pragma unroll 1
	for (u64 i = 0; i < n; i++) {
		storeByte(p + i, (u32)lo & 0xff);
		lo = lo >> 8 | hi << 56;
		hi >>= 8;
	}
}

DEVICE u64 smaller(u64 a, u64 b) { return a < b ? a : b; }
DEVICE u64 larger(u64 a, u64 b) { return a > b ? a : b; }
DEVICE u64 linesOf(u64 bytes) { return (bytes + 15) / 16; }

// within returns how many of the size bytes from start lie below end.
DEVICE u64 within(u64 start, u64 size, u64 end) { return start >= end ? 0 : smaller(size, end - start); }
