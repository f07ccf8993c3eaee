// The sentinel protocol moves lines of 16 bytes that are all data. A line of memory is empty while it holds the sentinel, 16
// random bytes of the group. Data equals the sentinel with a probability of 2^-128, so a line that differs has arrived.
// NVLink and the memory behind it keep 16 aligned bytes together that were stored together. So nothing is lost to flags, and
// no fence is needed. Sentinel memory starts empty, and the receiver of a line clears it: it stores the sentinel there.
//
// Data goes from each rank to the next over ring connections. Each warp has a connection of its own, and all ranks have the
// same grid. A connection moves data in numbered steps. Step j has one to four warp chunks, of 32 lines each. The sender
// stores them in slot j mod slots of the next rank's memory, where the warp of the same index takes them. The number of the
// next step is kept in counts from one operation to the next.
//
// Clearing. A warp clears step j in two parts. It stores the sentinel in the step's lines, and then has an atomic operation that
// changes nothing return a word of each line. Atomic operations take place in memory, and those of a thread at one address in their
// order with its stores. So the sentinels are in memory then, and a store by a rank that knows of the clearing comes later. To read the
// sentinels is not enough. Two ranks on one device lost lines of a later step so, in one of a thousand broadcasts of 16 MiB.
//
// Why a slot is empty. Before a sender stores step j, it knows that the step which had the slot before has been cleared:
//   All-reduce. A warp puts step j after it has cleared step j-1. The rank before had put step j-1 after it cleared step j-2.
//   So it goes on round the n ranks, and the next rank has cleared step j-n. There are at least n slots. The argument holds
//   from one operation to the next as well.
//   Broadcast. The root takes nothing, so it learns nothing from data. Instead a receiver returns credits to the rank before:
//   credit j says that the warp has cleared all steps before j. Before step j the sender waits for credit j-slots+1. From the
//   second step of the operation on, it waits at least for the number with which the operation began. Before it leaves, it
//   waits for the number after its last step. The first warp of a block returns the credits of all its warps. It does so
//   whenever it has cleared a step, and at the end until all warps are done. Credits stored by every warp would take bandwidth from the
//   data that a rank in the middle sends.
//
// From one operation to the next. A rank that begins a broadcast with step j knows that the slot of step j is empty. For it
// knows that step j-n is cleared, or all steps before j. Its second step waits for the credit with which the next rank
// enters. That rank has then ended all operations before. When a rank returns from a broadcast, its successor has cleared
// every slot that the rank wrote. A sender knows it from the final credit. The last rank puts nothing. It knows it because
// the data that it took came from its successor, the root, after the root had entered.
//
// A message is a broadcast from one rank to one other, in memory, counts and credits that serve such messages alone. It ends
// when the final credit has come. No rank stands before the sender, and nobody reads the credits that the sender returns.
//
// Credits may pass 0, for they are compared as signed differences. Every operation returns credit for the number with which
// it begins, so no credit is behind by more than one operation's steps.
// A warp that was aborted puts nothing, returns no credit and keeps no number.
#pragma once
#include "watch.h"

constexpr u32 slotChunks = 4; // warp chunks of a slot
constexpr u32 sentinelWarps = 16; // warps of a block, at most
constexpr u32 chunkBytes = 512;

// putLine stores a line for which a peer polls with watchLine, and isLine compares.
DEVICE void putLine(u64 p, Line v) {
	asm volatile("st.volatile.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(p), "r"(v.w[0]), "r"(v.w[1]), "r"(v.w[2]), "r"(v.w[3]) : "memory");
}
DEVICE bool isLine(Line v, const u32 (&of)[4]) { return ((v.w[0] ^ of[0]) | (v.w[1] ^ of[1]) | (v.w[2] ^ of[2]) | (v.w[3] ^ of[3])) == 0; }

// sentinelWarp returns the warp's index in an operation that some of the kernel's blocks carry out. block is this block's index
// among them.
DEVICE u32 sentinelWarp(u32 block) { return (block * threads() + thread()) / 32; }

// Iterations deals the warp chunks of a tensor to the warps of an operation. In each iteration every warp has the same number of
// chunks, but for the last iteration.
struct Iterations {
	u32 warp, warps, all, chunks, count;
	__attribute__((device, always_inline)) Iterations(u64 bytes, u32 block, u32 blocks)
		: warp(sentinelWarp(block)), warps(blocks * (threads() / 32)), all((u32)((bytes + chunkBytes - 1) / chunkBytes)) {
		count = (all + warps * slotChunks - 1) / (warps * slotChunks);
		chunks = (all + warps * count - 1) / (warps * count);
	}
	__attribute__((device, always_inline)) u32 chunk(u32 iteration, u32 u) { return (iteration * chunks + u) * warps + warp; }
	// at returns the offset in the tensor of this lane's line in chunk u. It may lie behind the tensor's end.
	__attribute__((device, always_inline)) u64 at(u32 iteration, u32 u) { return (u64)chunk(iteration, u) * chunkBytes + 16 * lane(); }
	// has returns how many chunks this warp has in an iteration. It is at least one, for every step moves something.
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

// Numbers are of steps, for each warp of a block, in shared memory.
struct Numbers {
	u32 begin[sentinelWarps]; // of the operation's first step
	u32 next[sentinelWarps];  // all steps before it are cleared
};

// Connection is a warp's ring connection: from the rank before, through this rank, to the next rank. All lanes of the warp call
// its functions together.
struct Connection {
	const SentinelArgs &a;
	Numbers &numbers;
	u64 here, next;         // address of this lane's first line of slot 0, in this rank's memory and in the next rank's
	u32 index;              // of the warp in the operation
	u32 number, slot, span; // of the next step; span is the bytes from slot to slot
	u32 creditedFor;        // in the first warp: the credit last returned for the warp with this lane's index
	Watch watch;
	bool on; // neither the warp was aborted nor a kernel before this one

	__attribute__((device, always_inline)) Connection(const SentinelArgs &a, Numbers &numbers, u32 block)
		: a(a), numbers(numbers), index(sentinelWarp(block)), span(a.blocks * sentinelWarps * slotChunks * chunkBytes), watch{a.group.state, a.group.abort} {
		u64 mine = (u64)index * slotChunks * chunkBytes + 16 * lane();
		here = a.memory + mine;
		next = a.next + mine;
		awaitBefore();
		number = watchWord(count());
		slot = watchWord(count() + 4);
		u32 left = thread() == 0 ? watch.left() : 0;
		if (lane() == 0) (volatile u32 &)numbers.begin[thread() / 32] = number;
		publish();
		on = __nvvm_bar0_and(left == 0) != 0;
		greet();
	}
	// Registers are scarce, so addresses and ranks are computed where they are used. The number and the slot of the next step are kept at
	// count(), and the next rank returns credit at credits().
	__attribute__((device, always_inline)) u64 count() { return a.counts + 8 * index; }
	__attribute__((device, always_inline)) u64 credits() { return a.credits + 4 * index; }
	// prevCredits is for the first warp: where the rank before gets credit for the warp with this lane's index.
	__attribute__((device, always_inline)) u64 prevCredits() {
		afresh(index);
		return a.prevCredits + 4 * (index + lane());
	}
	// from and to are the ranks before and after this one.
	__attribute__((device, always_inline)) u32 from() { return peerAt(a.group, a.before); }
	__attribute__((device, always_inline)) u32 to() { return peerAt(a.group, a.after); }
	// first reports whether this is the warp that returns credits, has whether this lane has a warp to return credit for.
	__attribute__((device, always_inline)) bool first() { return thread() < 32; }
	__attribute__((device, always_inline)) bool has() { return lane() < threads() / 32; }
	// again is Watch::again for the whole warp.
	__attribute__((device, always_inline)) bool again(u32 peer) { return on = allLanes(lane() != 0 || watch.again(peer)); }

	__attribute__((device, always_inline)) bool empty(Line v) { return isLine(v, a.sentinel); }
	// at is where this lane's line of chunk u of this step lies.
	__attribute__((device, always_inline)) u64 at(u32 u) { return here + (u64)slot * span + chunkBytes * u; }
	__attribute__((device, always_inline)) Line look(u32 u) { return watchLine(at(u)); }

	// lookAll loads all chunks of the step before it uses one.
	__attribute__((device, always_inline)) void lookAll(Line (&v)[slotChunks], u32 chunks) {
#pragma unroll
		for (u32 u = 0; u < slotChunks; u++) {
			if (u >= chunks) break;
			v[u] = look(u);
		}
	}

	// put stores the chunks of this step in the next rank's slot.
	__attribute__((device, always_inline)) void put(const Line (&v)[slotChunks], u32 chunks) {
#pragma unroll
		for (u32 u = 0; u < slotChunks; u++) {
			if (u >= chunks) break;
			putLine(next + (u64)slot * span + chunkBytes * u, v[u]);
		}
	}
	// take waits for the chunks of this step and begins to clear them. It polls the last chunk first, and so reads less. It returns on.
	__attribute__((device, always_inline)) bool take(Line (&v)[slotChunks], u32 chunks) {
		while (allLanes(empty(look(chunks - 1))) && again(from()));
		bool all;
		do {
			lookAll(v, chunks);
			all = true;
#pragma unroll
			for (u32 u = 0; u < slotChunks; u++) {
				if (u >= chunks) break;
				all = all && !empty(v[u]);
			}
		} while (on && !allLanes(all) && again(from()));
#pragma unroll
		for (u32 u = 0; u < slotChunks; u++) {
			if (u >= chunks || !on) break;
			putLine(at(u), Line{{a.sentinel[0], a.sentinel[1], a.sentinel[2], a.sentinel[3]}});
		}
		return on;
	}
	// clear waits until the chunks that take has cleared are empty in memory. Then it goes on to the next step.
	__attribute__((device, always_inline)) void clear(u32 chunks) {
		bool all;
		do {
			u32 w[slotChunks];
#pragma unroll
			for (u32 u = 0; u < slotChunks; u++) {
				if (u >= chunks) break;
				w[u] = wordInMemory(at(u));
			}
			all = true;
#pragma unroll
			for (u32 u = 0; u < slotChunks; u++) {
				if (u >= chunks) break;
				all = all && w[u] == a.sentinel[0];
			}
		} while (!allLanes(all) && again(from()));
		step();
	}
	__attribute__((device, always_inline)) void step() {
		number++;
		slot = slot + 1 == a.slots ? 0 : slot + 1;
	}

	// publish tells the first warp which step this warp has reached. With greet, and then with postCredit, the first warp returns the
	// credits of all warps. The sender's awaitCredit waits until the next rank has returned credit n.
	__attribute__((device, always_inline)) void publish() {
		if (lane() == 0) (volatile u32 &)numbers.next[thread() / 32] = number;
	}
	__attribute__((device, always_inline)) u32 published() { return has() ? (volatile u32 &)numbers.next[lane()] : 0; }
	__attribute__((device, always_inline)) void greet() {
		if (!first() || !on) return;
		together();
		creditedFor = published();
		if (has()) postWord(prevCredits(), creditedFor);
	}
	__attribute__((device, always_inline)) void postCredit() {
		if (!first()) return;
		together();
		u32 n = published();
		if (has() && n != creditedFor) postWord(prevCredits(), n);
		creditedFor = n;
	}
	// creditAll returns credits until all warps of the block have done so many steps. It counts from numbers.begin. For when the first warp
	// looks at numbers.next for the first time, another warp may have cleared a step, whose data came before the kernel.
	__attribute__((device, always_inline)) void creditAll(u32 steps) {
		if (!first()) return;
		do postCredit();
		while (!allLanes(!has() || creditedFor - (volatile u32 &)numbers.begin[lane()] == steps) && again(from()));
	}
	__attribute__((device, always_inline)) bool awaitCredit(u32 n) {
		while (!allLanes((i32)(watchWord(credits()) - n) >= 0) && again(to()));
		return on;
	}
	__attribute__((device, always_inline)) void leave() {
		if (lane() != 0 || !on) return;
		postWord(count(), number);
		postWord(count() + 4, slot);
	}
};

// sentinelBroadcast is a broadcast by some of the kernel's blocks. block is this block's index among them. Each iteration is one
// step of every warp's connection:
//   1. The root reads its tensor. Every other rank takes the chunks from its slot.
//   2. All ranks but the last wait for credit, and put the chunks in the next rank's slot.
//   3. All ranks but the root write the chunks to their tensor.
//   4. All ranks but the root clear the slot, and return credit.
// At the end:
//   5. The first warp of a block returns credit until all warps of the block are done.
//   6. All ranks but the last wait for the final credit.
DEVICE void sentinelBroadcast(const SentinelArgs &a, Numbers &numbers, u32 block, u32 blocks) {
	Connection b(a, numbers, block);
	Iterations x(a.bytes, block, blocks);
	bool root = a.ends & 1, last = a.ends & 2;
#pragma unroll 1
	for (u32 iteration = 0; b.on && iteration < x.count; iteration++) {
		u32 chunks = x.has(iteration);
		Line v[slotChunks];
		if (root) { // 1.
#pragma unroll
			for (u32 u = 0; u < slotChunks; u++) {
				if (u >= chunks) break;
				v[u] = readUser(a.in + x.at(iteration, u), within(x.at(iteration, u), 16, a.bytes));
			}
		} else if (!b.take(v, chunks)) break;
		if (!last) { // 2.
			if (iteration != 0 && !b.awaitCredit(iteration < a.slots ? b.number - iteration : b.number - a.slots + 1)) break; // at first for the number of the first step
			b.put(v, chunks);
		}
		if (root) {
			b.step();
			continue;
		}
		// 3.
#pragma unroll
		for (u32 u = 0; u < slotChunks; u++) {
			if (u >= chunks) break;
			writeUser(a.out + x.at(iteration, u), v[u], within(x.at(iteration, u), 16, a.bytes));
		}
		b.clear(chunks); // 4.
		if (!b.on) break;
		b.publish();
		b.postCredit();
	}
	if (b.on && !root) b.creditAll(x.count); // 5.
	if (b.on && !last) b.awaitCredit(b.number); // 6.
	b.leave();
}
