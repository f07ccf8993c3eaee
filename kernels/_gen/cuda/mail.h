// Messages by slots of a mailbox, each with its words (cuda/peer, mail.go). Every slot is a block's: one thread waits for what the slot
// needs, all copy, and one says so. Streams that wait for words and write them do the same, so a peer may have those instead.
#pragma once
#include "watch.h"

struct Mail {
	Message of{};
	u32 turn;                      // which of the message's blocks this one is
	u64 at, bytes;                 // what of the message lies in the slot
	u64 data, arrived, free, tags; // of the slot
	Watch watch;

	__attribute__((device, always_inline)) Mail(const MailArgs &a) : turn(block()), watch{a.stop} {
		bool found = false;
#pragma unroll
		for (int k = 0; k < mostMessages; k++) {
			const Message &m = a.messages[k];
			if (found) continue;
			if (turn < m.blocks) {
				of = m;
				found = true;
			} else turn -= m.blocks;
		}
		u32 i = (of.first + turn) % of.slots;
		at = of.at + (u64)turn * of.slot;
		bytes = within((u64)turn * of.slot, of.slot, of.bytes);
		data = of.data + (u64)i * of.slot;
		arrived = of.arrived + 4 * i;
		free = of.free + 4 * i;
		tags = of.tags + 8 * i;
		awaitBefore();
	}

	// code is what says that the slot is full.
	__attribute__((device, always_inline)) u32 code() { return turn == 0 ? of.code : 1; }

	// await has the block wait until one thread finds it ready. It returns false if the loop was stopped.
	template <class F> __attribute__((device, always_inline)) bool await(u32 &on, F ready) {
		if (thread() == 0) {
			while (!ready() && watch.again(of.peer));
			on = !watch.stopped;
		}
		sync();
		return on;
	}

	// copy loads some lines before it stores them.
	template <class L, class S> __attribute__((device, always_inline)) void copy(L load, S store) {
		constexpr u32 U = 4;
		for (u64 i = thread(), n = linesOf(bytes); i < n; i += U * threads()) {
			Line v[U];
#pragma unroll
			for (u32 u = 0; u < U; u++)
				if (i + u * threads() < n) v[u] = load(16 * (i + u * threads()));
#pragma unroll
			for (u32 u = 0; u < U; u++)
				if (i + u * threads() < n) store(16 * (i + u * threads()), v[u]);
		}
		sync();
	}

	// send fills a slot when it is free. The first one's words say what the message is.
	__attribute__((device, always_inline)) void send(u32 &on) {
		if (!await(on, [&] { return acquireWord(free) == 1; })) return;
		copy([&](u64 o) { return readUser(at + o, bytes - o); }, [&](u64 o, Line v) { storeLine(data + o, v); });
		if (thread() != 0) return;
		postWord(free, 0);
		if (turn == 0) {
			postWord(tags, mostCode - of.code);
			postWord(tags + 4, of.label);
		}
		releaseWord(arrived, code());
	}

	// receive empties a slot when the message is there. Any other stays where it is.
	__attribute__((device, always_inline)) void receive(u32 &on) {
		auto came = [&] { return acquireWord(arrived) == code() && (turn != 0 || watchWord(tags) == mostCode - of.code); };
		if (!await(on, came)) return;
		copy([&](u64 o) { return loadLine(data + o); }, [&](u64 o, Line v) { writeUser(at + o, v, bytes - o); });
		if (thread() != 0) return;
		postWord(arrived, 0);
		releaseWord(free, 1);
	}
};
