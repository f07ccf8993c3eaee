// Swap: two long messages at once, one to a peer and one from it, each a broadcast by lines (lines.h).
//
// A message may be carried when both ranks are there: until then no more than a block may wait, for the peer may be behind another
// operation. The sender knows it by the word ready, the receiver by the slot that tells what the message is. One thread, of
// rendezvous, says both to the peer and looks for both. Two launches of sendrecv follow, of the same blocks.
//
// ready is 1 where the peer receives, and readyToMeet where it swaps, too. Then its slot is coming without anything more of this rank,
// and the first launch carries both messages. Else what the peer has come for may have to be done before it does the other:
// the first launch carries that, while its last block waits for the other, which the second carries. It carries nothing else.
//
// Both ranks of a swap decide alike: who finds ready to be readyToMeet waits for the slot, and who finds the slot finds ready
// so, for the peer has said that before.
// No circle of ranks waits: what a launch carries, the peer has come for, and needs nothing else of this rank.
#pragma once
#include "sentinel.h"
#include "watch.h"

constexpr u32 clearToSendRecv = 2;
constexpr u32 sends = 1, receives = 2, both = sends | receives; // what is carried

struct Rendezvous {
	const SendRecvArgs &a;
	Watch watch;

	__attribute__((device, always_inline)) Rendezvous(const SendRecvArgs &a) : a(a), watch{a.out.group.abort} {}

	// tell says that this rank is ready, and what it sends.
	__attribute__((device, always_inline)) void announce() {
		const Message &m = a.sent;
		u64 free = m.free + 4 * m.first, tags = m.tags + 8 * m.first;
		postWord(a.peerClearToSend, clearToSendRecv);
		while (acquireWord(free) != 1 && watch.again(m.peer));
		if (watch.aborted) return;
		postWord(free, 0);
		postWord(tags, mostCode - m.code);
		postWord(tags + 4, m.label);
		releaseWord(m.arrived + 4 * m.first, m.code);
	}

	// await waits for one of what is wanted, or for both if they are sure to come, and returns it: 0 if the loop was stopped.
	__attribute__((device, always_inline)) u32 await(u32 wanted) {
		const Message &m = a.received;
		u64 arrived = m.arrived + 4 * m.first, tags = m.tags + 8 * m.first;
		u32 clearToSend, found;
		do {
			found = 0;
			if ((wanted & receives) && acquireWord(arrived) == m.code && watchWord(tags) == mostCode - m.code) found |= receives;
			clearToSend = (wanted & sends) ? acquireWord(a.clearToSend) : 0;
			if (clearToSend - 1 < clearToSendRecv) found |= sends; // a group that has failed says something else
		} while ((found == 0 || (found != wanted && clearToSend == clearToSendRecv)) && watch.again(m.peer));
		if (watch.aborted) return 0;
		if (found & sends) postWord(a.clearToSend, 0);
		if (found & receives) {
			postWord(arrived, 0);
			releaseWord(m.free + 4 * m.first, 1);
		}
		return found;
	}
};
