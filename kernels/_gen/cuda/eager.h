// Messages by slots of an eager buffer, each with its flag words (cuda/peer, eager.go). A block serves one slot after the other.
// Streams that wait for words and write them do the same, so a peer may use those instead.
//
// There are few blocks, for a message may wait for a peer that waits for another operation of this device. Each block sends before
// it receives, so ranks that send to one another do not wait for each other. Setting a flag takes longer than copying some KiB,
// for all stores before it have to arrive. So slots are large.
//
// A slot is free when its word free is 1, and full when its word arrived is the message's code. The side that finds the word resets
// it: the sender resets free before it sets arrived, and the receiver resets arrived before it sets free. So only one side
// accesses the slot at any time.
#pragma once
#include "watch.h"

struct EagerSlot {
	Message of{};
	u32 partIndex;                 // of the part at hand, in its message
	u64 at, bytes;                 // of that part in the tensor
	u64 data, arrived, free, tags; // addresses of its slot and the slot's words
	Watch watch;

	__attribute__((device, always_inline)) EagerSlot(const EagerArgs &a) : watch{a.state, a.abort} {
		awaitBefore();
		if (thread() == 0) watch.begin(); // which alone waits
	}

	// take finds the n-th part of all messages. It returns false if there are fewer parts.
	__attribute__((device, always_inline)) bool take(const EagerArgs &a, u32 n) {
		bool found = false;
		partIndex = n;
#pragma unroll
		for (int k = 0; k < mostMessages; k++) {
			const Message &m = a.messages[k];
			if (found) continue;
			if (partIndex < m.parts) {
				of = m;
				found = true;
			} else partIndex -= m.parts;
		}
		u32 i = found ? (of.first + partIndex) % of.slots : 0;
		at = of.at + (u64)partIndex * of.part;
		bytes = within((u64)partIndex * of.part, of.part, of.bytes);
		data = of.data + (u64)i * of.slot;
		arrived = of.arrived + 4 * i;
		free = of.free + 4 * i;
		tags = of.tags + 8 * i;
		return found;
	}

	// code returns the value of the word arrived that says that the slot is full.
	__attribute__((device, always_inline)) u32 code() { return partIndex == 0 ? of.code : 1; }

	// await has the block wait until one thread finds the slot ready. It returns false if the wait was aborted.
	template <class F> __attribute__((device, always_inline)) bool await(u32 &on, F ready) {
		if (thread() == 0) {
			while (!ready() && watch.again(of.peer));
			on = !watch.aborted();
		}
		sync();
		return on;
	}

	// move copies lines. Each thread loads some lines before it stores them.
	template <u32 some, class L, class S> __attribute__((device, always_inline)) void move(u64 from, u64 to, L load, S store) {
#pragma unroll 1
		for (u64 i = from + thread(); i < to; i += some * threads()) {
			Line v[some];
#pragma unroll
			for (u32 u = 0; u < some; u++)
				if (i + u * threads() < to) v[u] = load(16 * (i + u * threads()));
#pragma unroll
			for (u32 u = 0; u < some; u++)
				if (i + u * threads() < to) store(16 * (i + u * threads()), v[u]);
		}
	}
	// whole returns how many whole lines the part has, or none if it does not lie at a multiple of 16.
	__attribute__((device, always_inline)) u64 whole() { return at % 16 == 0 ? bytes / 16 : 0; }

	// send fills a slot:
	//   1. Wait until the slot is free.
	//   2. Copy the part into the slot.
	//   3. Reset free. Of the first slot set the tags, which say what the message is. Set arrived.
	__attribute__((device, always_inline)) void send(u32 &on) {
		if (!await(on, [&] { return acquireWord(free) == 1; })) return; // 1.
		// 2.
		auto put = [&](u64 o, Line v) { storeLine(data + o, v); };
		move<8>(0, whole(), [&](u64 o) { return streamLine(at + o); }, put);
		move<2>(whole(), linesOf(bytes), [&](u64 o) { return readUser(at + o, bytes - o); }, put);
		sync();
		if (thread() != 0) return;
		postWord(free, 0); // 3.
		if (partIndex == 0) {
			postWord(tags, mostCode - of.code);
			postWord(tags + 4, of.label);
		}
		releaseWord(arrived, code());
	}

	// receive empties a slot:
	//   1. Wait until the message at hand has arrived. Any other message stays in its slot.
	//   2. Copy the slot into the tensor.
	//   3. Reset arrived. Set free.
	__attribute__((device, always_inline)) void receive(u32 &on) {
		auto came = [&] { return acquireWord(arrived) == code() && (partIndex != 0 || watchWord(tags) == mostCode - of.code); };
		if (!await(on, came)) return; // 1.
		// 2.
		auto get = [&](u64 o) { return loadLine(data + o); };
		move<8>(0, whole(), get, [&](u64 o, Line v) { storeLine(at + o, v); });
		move<2>(whole(), linesOf(bytes), get, [&](u64 o, Line v) { writeUser(at + o, v, bytes - o); });
		sync();
		if (thread() != 0) return;
		postWord(arrived, 0); // 3.
		releaseWord(free, 1);
	}
};
