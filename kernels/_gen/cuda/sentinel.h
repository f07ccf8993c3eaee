// Lines: 16 bytes that are all data and prove themselves by not being blank. Blank is 16 random bytes of the group, which data
// is with a probability of 2^-128. NVLink and the memory behind it keep aligned 16 bytes together that were stored so. Line
// memory starts blank, and who takes a line makes it blank again. So nothing is lost to flags, and no fence is needed.
//
// Data goes from each rank to the next. Every warp goes by itself, in steps that have numbers: in step j it puts some strips of 32
// lines, one at least, into place j mod places of the next rank's memory, where the warp with its index takes them. Which step
// is next it keeps in count from one operation to the next. All ranks have the same grid, so a warp has the same steps on all.
//
// A warp clears a step when it has made its lines blank and has read that they are. What was read back has come to memory,
// so what anybody stores there who has heard of it comes later. Before step j its sender has heard that the step is cleared
// which had the place:
//   All-reduce, where data goes round: a warp puts step j after it has cleared j-1, which the rank before has put after it had
//   cleared j-2, and so on round n ranks: the next one has cleared j-n. There are n places at least. It is so from one operation
//   to the next as well.
//   Broadcast, where the root hears nothing: number j is signed to the rank before when a warp has cleared all steps before j.
//   Before step j the sender waits for j-places+1, from the operation's second step on for its first number at least, and before
//   it leaves for the number behind its last. A block's first warp signs for all, whenever it has cleared a step and then until
//   all are through: signs of every warp would take from what a rank in the middle sends on.
//
// From one operation to the next: who begins a broadcast with step j has heard that j-n is cleared, or all before j, and so the
// step that had j's place. Its second step waits until the next rank has signed that it has entered, and has ended all before.
// Who has left a broadcast knows that all of its steps are cleared at the next rank: a sender by the last sign; the last rank,
// which puts nothing, because what it took came from that next one, the root, after it had entered.
//
// A message is a broadcast from one rank to one other, in memory, counts and signs that are for such messages alone. It ends when the
// last sign has come. Nobody is before the sender; what it signs nobody reads.
//
// Signs may pass 0. All operations sign the numbers with which they begin, so none is behind by more than one operation's steps.
// A warp that was stopped puts, signs and keeps nothing more.
#pragma once
#include "watch.h"

constexpr u32 slotChunks = 4; // of a step, at most
constexpr u32 sentinelWarps = 16; // of a block
constexpr u32 chunkBytes = 512;

// putLine stores a line where somebody looks for it, lookLine looks, and isLine compares.
DEVICE void putLine(u64 p, Line v) {
	asm volatile("st.volatile.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(p), "r"(v.w[0]), "r"(v.w[1]), "r"(v.w[2]), "r"(v.w[3]) : "memory");
}
DEVICE Line lookLine(u64 p) {
	Line v;
	asm volatile("ld.volatile.global.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.w[0]), "=r"(v.w[1]), "=r"(v.w[2]), "=r"(v.w[3]) : "l"(p) : "memory");
	return v;
}
DEVICE bool isLine(Line v, const u32 (&of)[4]) { return ((v.w[0] ^ of[0]) | (v.w[1] ^ of[1]) | (v.w[2] ^ of[2]) | (v.w[3] ^ of[3])) == 0; }

// lineWarp is a warp's index among those of some blocks, of which this one is the given one.
DEVICE u32 sentinelWarp(u32 block) { return (block * threads() + thread()) / 32; }

// Sweeps deals the strips of so many bytes to all warps of some blocks, as many to each in every sweep, but for the last one.
struct Iterations {
	u32 warp, warps, all, chunks, count;
	__attribute__((device, always_inline)) Iterations(u64 bytes, u32 block, u32 blocks)
		: warp(sentinelWarp(block)), warps(blocks * (threads() / 32)), all((u32)((bytes + chunkBytes - 1) / chunkBytes)) {
		count = (all + warps * slotChunks - 1) / (warps * slotChunks);
		chunks = (all + warps * count - 1) / (warps * count);
	}
	__attribute__((device, always_inline)) u32 chunk(u32 iteration, u32 u) { return (iteration * chunks + u) * warps + warp; }
	// at returns where the lane's line of strip u lies in a tensor, or behind its end.
	__attribute__((device, always_inline)) u64 at(u32 iteration, u32 u) { return (u64)chunk(iteration, u) * chunkBytes + 16 * lane(); }
	// has returns how many strips this warp has in a sweep: one at least, for every step moves something.
	__attribute__((device, always_inline)) u32 has(u32 iteration) {
		u32 n = 1;
#pragma unroll
		for (u32 u = 1; u < slotChunks; u++) {
			if (u >= chunks || chunk(iteration, u) >= all) break;
			n = u + 1;
		}
		return n;
	}
};

// Belt is a warp's way from the rank before to the next. All lanes call together what it does.
struct Connection {
	const SentinelArgs &a;
	u32 (&numbers)[sentinelWarps]; // of the block's warps, in shared memory: all steps before are cleared
	u64 here, next;            // this lane's first line of place 0, in the own memory and in the next rank's
	u64 count, credits;          // where the number and the place of the next step are kept, and where the next rank signs
	u64 prevCredits;                  // in the first warp: where it signs to the rank before, for the warp with the lane's index
	u32 number, slot, span;
	u32 creditedFor; // in the first warp: what was signed last for the warp with the lane's index
	u32 from, to;  // ranks
	Watch watch;
	bool on = true; // it was not stopped

	__attribute__((device, always_inline)) Connection(const SentinelArgs &a, u32 (&numbers)[sentinelWarps], u32 block)
		: a(a), numbers(numbers), span(a.blocks * sentinelWarps * slotChunks * chunkBytes), watch{a.group.abort} {
		u32 w = sentinelWarp(block);
		u64 mine = (u64)w * slotChunks * chunkBytes + 16 * lane();
		here = a.memory + mine;
		next = a.next + mine;
		count = a.counts + 8 * w;
		credits = a.credits + 4 * w;
		prevCredits = a.prevCredits + 4 * (w + lane());
		from = peerAt(a.group, a.before);
		to = peerAt(a.group, a.after);
		awaitBefore();
		number = watchWord(count);
		slot = watchWord(count + 4);
		publish();
		sync();
		creditedFor = ~published();
		postCredit();
	}
	// first tells whether this is the warp that signs, and whether the lane has a warp to sign for.
	__attribute__((device, always_inline)) bool first() { return thread() < 32; }
	__attribute__((device, always_inline)) bool has() { return lane() < threads() / 32; }
	// again is Watch's for the warp.
	__attribute__((device, always_inline)) bool again(u32 peer) { return on = allLanes(lane() != 0 || watch.again(peer)); }

	__attribute__((device, always_inline)) bool empty(Line v) { return isLine(v, a.sentinel); }
	__attribute__((device, always_inline)) Line look(u32 u) { return lookLine(here + (u64)slot * span + chunkBytes * u); }

	// lookAll asks for all strips before one is looked at.
	__attribute__((device, always_inline)) void lookAll(Line (&v)[slotChunks], u32 chunks) {
#pragma unroll
		for (u32 u = 0; u < slotChunks; u++) {
			if (u >= chunks) break;
			v[u] = look(u);
		}
	}

	// put stores the strips of this step.
	__attribute__((device, always_inline)) void put(const Line (&v)[slotChunks], u32 chunks) {
#pragma unroll
		for (u32 u = 0; u < slotChunks; u++) {
			if (u >= chunks) break;
			putLine(next + (u64)slot * span + chunkBytes * u, v[u]);
		}
	}
	// take waits for the strips of this step and makes them blank. It looks for the last one first, and so reads less. It returns on.
	__attribute__((device, always_inline)) bool take(Line (&v)[slotChunks], u32 chunks) {
		while (allLanes(empty(look(chunks - 1))) && again(from));
		bool all;
		do {
			lookAll(v, chunks);
			all = true;
#pragma unroll
			for (u32 u = 0; u < slotChunks; u++) {
				if (u >= chunks) break;
				all = all && !empty(v[u]);
			}
		} while (on && !allLanes(all) && again(from));
#pragma unroll
		for (u32 u = 0; u < slotChunks; u++) {
			if (u >= chunks || !on) break;
			putLine(here + (u64)slot * span + chunkBytes * u, Line{{a.sentinel[0], a.sentinel[1], a.sentinel[2], a.sentinel[3]}});
		}
		return on;
	}
	// clear waits until the strips that were taken in this step are read to be blank, and goes on to the next step.
	__attribute__((device, always_inline)) void clear(u32 chunks) {
		bool all;
		do {
			Line v[slotChunks];
			lookAll(v, chunks);
			all = true;
#pragma unroll
			for (u32 u = 0; u < slotChunks; u++) {
				if (u >= chunks) break;
				all = all && empty(v[u]);
			}
		} while (!allLanes(all) && again(from));
		step();
	}
	__attribute__((device, always_inline)) void step() {
		number++;
		slot = slot + 1 == a.slots ? 0 : slot + 1;
	}

	// say tells the first warp how far this one is, sign has it tell the rank before how far all are. heard waits until the next
	// rank has signed n.
	__attribute__((device, always_inline)) void publish() {
		if (lane() == 0) (volatile u32 &)numbers[thread() / 32] = number;
	}
	__attribute__((device, always_inline)) u32 published() { return has() ? (volatile u32 &)numbers[lane()] : 0; }
	__attribute__((device, always_inline)) void postCredit() {
		if (!first()) return;
		together();
		u32 n = published();
		if (has() && n != creditedFor) postWord(prevCredits, n);
		creditedFor = n;
	}
	// signAll signs until all warps of the block have done some steps since begin, which is said() as it was before.
	__attribute__((device, always_inline)) void creditAll(u32 begin, u32 steps) {
		if (!first()) return;
		do postCredit();
		while (!allLanes(!has() || creditedFor - begin == steps) && again(from));
	}
	__attribute__((device, always_inline)) bool awaitCredit(u32 n) {
		while (!allLanes((i32)(watchWord(credits) - n) >= 0) && again(to));
		return on;
	}
	__attribute__((device, always_inline)) void leave() {
		if (lane() != 0 || !on) return;
		postWord(count, number);
		postWord(count + 4, slot);
	}
};

// handOn is a broadcast by some blocks, of which this one is the given one.
DEVICE void sentinelBroadcast(const SentinelArgs &a, u32 (&numbers)[sentinelWarps], u32 block, u32 blocks) {
	Connection b(a, numbers, block);
	Iterations x(a.bytes, block, blocks);
	bool root = a.ends & 1, last = a.ends & 2;
	u32 begin = b.number, signedFirst = b.creditedFor;
#pragma unroll 1
	for (u32 iteration = 0; b.on && iteration < x.count; iteration++) {
		u32 chunks = x.has(iteration);
		Line v[slotChunks];
		if (root) {
#pragma unroll
			for (u32 u = 0; u < slotChunks; u++) {
				if (u >= chunks) break;
				v[u] = readUser(a.in + x.at(iteration, u), within(x.at(iteration, u), 16, a.bytes));
			}
		} else if (!b.take(v, chunks)) break;
		if (!last) {
			if (iteration != 0 && !b.awaitCredit(iteration < a.slots ? begin : b.number - a.slots + 1)) break;
			b.put(v, chunks);
		}
		if (root) {
			b.step();
			continue;
		}
#pragma unroll
		for (u32 u = 0; u < slotChunks; u++) {
			if (u >= chunks) break;
			writeUser(a.out + x.at(iteration, u), v[u], within(x.at(iteration, u), 16, a.bytes));
		}
		b.clear(chunks);
		if (!b.on) break;
		b.publish();
		b.postCredit();
	}
	if (b.on && !root) b.creditAll(signedFirst, x.count);
	if (b.on && !last) b.awaitCredit(b.number);
	b.leave();
}
