// Messages by slots of a mailbox, each with its words (cuda/peer, mail.go). A block takes a slot after the other: one thread waits for
// what the slot needs, all copy, and one says so. Streams that wait for words and write them do the same, so a peer may have those
// instead.
//
// Blocks are few, for a message may wait for a peer that waits for another operation of this device. Each takes what is sent before
// what is received, so ranks that send to one another do not wait for each other. Saying so takes longer than copying some KiB, for
// all that was stored has to be there: slots are large.
#pragma once
#include "watch.h"

struct EagerSlot {
	Message of{};
	u32 partIndex;                      // which of the message's parts this one is
	u64 at, bytes;                 // it
	u64 data, arrived, free, tags; // of its slot
	Watch watch;

	__attribute__((device, always_inline)) EagerSlot(const EagerArgs &a) : watch{a.abort} { awaitBefore(); }

	// take finds the n-th part of all messages. It returns false if they have fewer.
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

	// code is what says that the slot is full.
	__attribute__((device, always_inline)) u32 code() { return partIndex == 0 ? of.code : 1; }

	// await has the block wait until one thread finds the slot ready. It returns false if the loop was stopped.
	template <class F> __attribute__((device, always_inline)) bool await(u32 &on, F ready) {
		if (thread() == 0) {
			while (!ready() && watch.again(of.peer));
			on = !watch.aborted;
		}
		sync();
		return on;
	}

	// move copies lines, of which each thread loads some before it stores them.
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
	// whole returns how many lines of the part are at multiples of 16 in the tensor.
	__attribute__((device, always_inline)) u64 whole() { return at % 16 == 0 ? bytes / 16 : 0; }

	// send fills a slot when it is free. The first one's words say what the message is.
	__attribute__((device, always_inline)) void send(u32 &on) {
		if (!await(on, [&] { return acquireWord(free) == 1; })) return;
		auto put = [&](u64 o, Line v) { storeLine(data + o, v); };
		move<8>(0, whole(), [&](u64 o) { return streamLine(at + o); }, put);
		move<2>(whole(), linesOf(bytes), [&](u64 o) { return readUser(at + o, bytes - o); }, put);
		sync();
		if (thread() != 0) return;
		postWord(free, 0);
		if (partIndex == 0) {
			postWord(tags, mostCode - of.code);
			postWord(tags + 4, of.label);
		}
		releaseWord(arrived, code());
	}

	// receive empties a slot when the message is there. Any other stays where it is.
	__attribute__((device, always_inline)) void receive(u32 &on) {
		auto came = [&] { return acquireWord(arrived) == code() && (partIndex != 0 || watchWord(tags) == mostCode - of.code); };
		if (!await(on, came)) return;
		auto get = [&](u64 o) { return loadLine(data + o); };
		move<8>(0, whole(), get, [&](u64 o, Line v) { storeLine(at + o, v); });
		move<2>(whole(), linesOf(bytes), get, [&](u64 o, Line v) { writeUser(at + o, v, bytes - o); });
		sync();
		if (thread() != 0) return;
		postWord(arrived, 0);
		releaseWord(free, 1);
	}
};
