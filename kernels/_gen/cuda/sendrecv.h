// Sendrecv: two long messages at once, one to a peer and one from it, each a broadcast by the sentinel protocol (sentinel.h).
//
// A message may be carried when both ranks are there. Until then at most one block may wait, for the peer may be behind another
// operation. The sender knows it by the word clearToSend. The receiver knows it by the eager slot that holds the rendezvous message.
// One thread, of the kernel rendezvous, tells the peer both and waits for both. Two launches of the kernel sendrecv follow, of the
// same blocks.
//
// clearToSend is 1 if the peer only receives, and clearToSendRecv if it runs a sendrecv, too. In the second case the peer's rendezvous
// message will come without anything more of this rank, and the first launch carries both messages. Else the peer may have to
// finish the one that it has come for before it begins the other. The first launch carries that one, while its last block waits
// for the other, which the second launch carries. The second launch carries nothing else.
//
// Both ranks of a sendrecv decide alike. A rank that finds clearToSend to be clearToSendRecv waits for the rendezvous message. A rank
// that finds the rendezvous message also finds clearToSend so, for the peer has set that word first.
// No circle of ranks waits: the peer has come for the messages that a launch carries, and needs nothing else of this rank.
#pragma once
#include "sentinel.h"
#include "watch.h"

constexpr u32 clearToSendRecv = 2;
constexpr u32 sends = 1, receives = 2, both = sends | receives; // the messages that a launch carries

struct Rendezvous {
	const SendRecvArgs &a;
	Watch watch;

	__attribute__((device, always_inline)) Rendezvous(const SendRecvArgs &a) : a(a), watch{a.out.group.state, a.out.group.abort} { watch.begin(); }

	// announce tells the peer that this rank is ready, and what it sends, unless a kernel before this one was aborted:
	//   1. Set the peer's clearToSend.
	//   2. Wait until the eager slot is free, and put the rendezvous message into it.
	__attribute__((device, always_inline)) void announce() {
		const Message &m = a.sent;
		u64 free = m.free + 4 * m.first, tags = m.tags + 8 * m.first;
		if (watch.aborted()) return;
		postWord(a.peerClearToSend, clearToSendRecv); // 1.
		// 2.
		while (acquireWord(free) != 1 && watch.again(m.peer));
		if (watch.aborted()) return;
		postWord(free, 0);
		postWord(tags, mostCode - m.code);
		postWord(tags + 4, m.label);
		releaseWord(m.arrived + 4 * m.first, m.code);
	}

	// await waits for one of the wanted messages, or for both if both are sure to come. It returns the messages that may be carried,
	// or 0 if it was aborted:
	//   1. Poll the rendezvous message and clearToSend.
	//   2. Reset the words of the messages that were found.
	__attribute__((device, always_inline)) u32 await(u32 wanted) {
		const Message &m = a.received;
		u64 arrived = m.arrived + 4 * m.first, tags = m.tags + 8 * m.first;
		u32 clearToSend, found;
		do { // 1.
			found = 0;
			if ((wanted & receives) && acquireWord(arrived) == m.code && watchWord(tags) == mostCode - m.code) found |= receives;
			clearToSend = (wanted & sends) ? acquireWord(a.clearToSend) : 0;
			if (clearToSend - 1 < clearToSendRecv) found |= sends; // a group that has failed sets another value
		} while ((found == 0 || (found != wanted && clearToSend == clearToSendRecv)) && watch.again(m.peer));
		if (watch.aborted()) return 0;
		// 2.
		if (found & sends) postWord(a.clearToSend, 0);
		if (found & receives) {
			postWord(arrived, 0);
			releaseWord(m.free + 4 * m.first, 1);
		}
		return found;
	}
};
