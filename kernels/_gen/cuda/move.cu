// The entry points that move bytes of any element type.
#include "lleven.h"
#include "eager.h"
#include "own.h"
#include "tiles.h"

// copy copies bytes between addresses of any alignment that do not overlap:
//   1. Whole lines at multiples of 16 in the output. Each thread loads some lines before it stores them.
//   2. The bytes before the first whole line, and the bytes after the last.
KERNEL void copy(CopyArgs a) {
	constexpr int U = 4;
	awaitBefore();
	u64 head = smaller(-a.out % 16, a.bytes), step = workers();
	bool aligned = (a.in - a.out) % 16 == 0;
	u64 lines = (a.bytes - head) / 16, tail = head + 16 * lines;
	for (u64 i = worker(); i < lines; i += U * step) { // 1.
		Line v[U];
#pragma unroll
		for (int u = 0; u < U; u++)
			if (i + u * step < lines) {
				u64 p = a.in + head + 16 * (i + u * step);
				v[u] = aligned ? streamLine(p) : readUser(p, 16);
			}
#pragma unroll
		for (int u = 0; u < U; u++)
			if (i + u * step < lines) storeLine(a.out + head + 16 * (i + u * step), v[u]);
	}
	// 2.
	if (worker() < head) storeByte(a.out + worker(), loadByte(a.in + worker()));
	if (worker() < a.bytes - tail) storeByte(a.out + tail + worker(), loadByte(a.in + tail + worker()));
}

// fill stores the same line many times.
KERNEL void fill(FillArgs a) {
	awaitBefore();
	for (u64 i = worker(); i < a.lines; i += workers()) storeLine(a.out + 16 * i, Line{{a.line[0], a.line[1], a.line[2], a.line[3]}});
}

// exchange_ll sends each peer any bytes and receives any bytes from it: all-gather, all-to-all, gather and scatter, even or not. With
// no bytes at all it is a barrier. Both ranks of a pair know both lengths, which are at most half of llSlot. The memory that
// a rank receives into must not overlap the memory that it sends, but for its own part.
//   1. Load the thread's first line while the operation's number is on its way.
//   2. Send every line to its peer. Copy the lines that stay on this rank.
//   3. Wait for every line of every peer, and write it.
KERNEL_OF(512, 3) void exchange_ll(ExchangeArgs a) {
	SHARED ByPeerIndex peers, send, sendBytes, recv, recvBytes;
	const GroupArgs &g = a.group;
	peers.fill(g.ll);
	send.fill(a.send);
	sendBytes.fill(a.sendBytes);
	recv.fill(a.recv);
	recvBytes.fill(a.recvBytes);
	sync();
	LL p(g);
	u64 span = g.llSlot / 2;
	u32 deals = Deal::all(g, 0, sendBytes.at);
	auto outgoing = [&](Deal x) { return readUser(send.at[x.d] + 16 * x.i, within(16 * x.i, 16, sendBytes.at[x.d])); };
	Line first{}; // 1. mostly a thread has one line
	if (Deal x = Deal::of(g, 0, (u32)worker()); worker() < deals && x.i < Deal::lines(sendBytes.at[x.d])) first = outgoing(x);
	p.number();
	// 2.
	for (u32 w = (u32)worker(); w < deals; w += (u32)workers()) {
		Deal x = Deal::of(g, 0, w);
		if (x.i >= Deal::lines(sendBytes.at[x.d])) continue;
		Line v = w == worker() ? first : outgoing(x);
		if (x.d != 0) p.put(p.slot(peers.at[x.d], g.rank, peerAt(g, x.d)), span, x.i, v);
		else if (send.at[0] != recv.at[0]) writeUser(recv.at[0] + 16 * x.i, v, within(16 * x.i, 16, sendBytes.at[0]));
	}
	p.arrive();
	// 3.
	for (u32 w = (u32)worker(), n = Deal::all(g, 0, recvBytes.at); w < n; w += (u32)workers()) {
		auto [d, i] = Deal::of(g, 0, w);
		u32 q = peerAt(g, d);
		u64 bytes = recvBytes.at[d];
		if (d != 0 && i < Deal::lines(bytes))
			writeUser(recv.at[d] + 16 * i, p.take(p.slot(peers.at[0], q, g.rank), span, i, q), within(16 * i, 16, bytes));
	}
	p.finish();
}

// exchange_ll_even exchanges parts of one length by LL. The own part is not copied if it is in place.
//   1. Send each peer its part.
//   2. For each line: copy the own part's, then wait for every peer's and store it.
KERNEL void exchange_ll_even(EvenArgs a) {
	const GroupArgs &g = a.group;
	LL p(g);
	Line mine = sendEven(p, a); // 1.
	u64 home = a.out + g.rank * a.part;
	bool moves = a.in + g.rank * a.step != home;
	for (u64 i = worker(); i < a.part / 16; i += workers()) { // 2.
		if (moves) storeLine(home + 16 * i, ownEven(a, i, mine));
		LL::Pair v[maxRanks];
		p.takeAll(v, g.llSlot / 2, i);
#pragma unroll
		for (u32 k = 0; k < maxRanks - 1; k++) {
			if (k + 1 >= g.size) break;
			storeLine(a.out + (k < g.rank ? k : k + 1) * a.part + 16 * i, v[k].line());
		}
	}
	p.finish();
}

// broadcast_ll sends all data from the root to every peer. Every other rank sends each peer one LL line without meaning. For
// in every operation each rank sends each peer at least one (ll.h).
//   1. Load the thread's first line while the operation's number is on its way.
//   2. The root sends every line to every peer, any other rank one line.
//   3. Every rank but the root waits for the root's lines, and writes them.
//   4. Wait for one LL line of every other peer.
KERNEL void broadcast_ll(BroadcastArgs a) {
	const GroupArgs &g = a.group;
	LL p(g);
	u64 span = g.llSlot / 2, lines = linesOf(a.bytes);
	u32 root = peerAt(g, a.root);
	bool sends = root == g.rank;
	Line first{}; // 1. mostly a thread has one line
	if (sends && worker() < lines) first = readUser(a.in + 16 * worker(), a.bytes - 16 * worker());
	p.number();
	for (u64 i = worker(); i < (sends ? lines : 1); i += workers()) { // 2.
		p.putAll(span, i, i == worker() ? first : readUser(a.in + 16 * i, a.bytes - 16 * i));
	}
	p.arrive();
	// 3.
	for (u64 i = worker(); i < lines && !sends; i += workers())
		writeUser(a.out + 16 * i, p.take(p.slot(g.ll[0], root, g.rank), span, i, root), a.bytes - 16 * i);
	// 4.
	if (u32 d = 1 + (u32)worker(), q = peerAt(g, d); worker() < g.size - 1 && q != root) p.take(p.slot(g.ll[0], q, g.rank), span, 0, q);
	p.finish();
}

// exchange_tiles exchanges parts that are too long for LL, in tiles. In a pair both ranks count as many tiles as the longer
// of the two directions has.
//   1. Blocks of even index copy their half of the own part.
//   In step j:
//   2. Push tile j to every peer and announce it.
//   3. Wait for tile j-1 of every peer, and copy it to the output.
//   At the end:
//   4. Count the tiles. Blocks of odd index copy their half of the own part.
KERNEL void exchange_tiles(ExchangeArgs a) {
	SHARED Tiles::Store store;
	SHARED ByPeerIndex send, sendBytes, recv, recvBytes;
	const GroupArgs &g = a.group;
	send.fill(a.send);
	sendBytes.fill(a.sendBytes);
	recv.fill(a.recv);
	recvBytes.fill(a.recvBytes);
	Tiles t(g, store);
	if (!t.begins) return;
	own(a.send[0], a.recv[0], a.sendBytes[0], 0); // 1.
	u32 tile = a.tile, most = 0;
	auto count = [&](u32 d) { return d == 0 ? 0 : tilesOf(larger(sendBytes.at[d], recvBytes.at[d]), tile); };
	for (u32 d = 1; d < g.size; d++) most = (u32)larger(most, count(d));
	for (u32 j = 0; most != 0 && j < most + 1; j++) {
		if (j < most) { // 2.
			if (!t.on()) break;
			u64 at = tileAt(j, tile);
			t.push(0, j, tile, [&](u32 d) { return send.at[d] + at; }, [&](u32 d) { return within(at, tile, sendBytes.at[d]); });
			t.signal(0, j, count);
		}
		if (j >= 1) { // 3.
			u64 at = tileAt(j - 1, tile);
			t.wait(0, j - 1, count);
			t.pull(0, j - 1, tile, [&](u32 d) { return recv.at[d] + at; }, [&](u32 d) { return within(at, tile, recvBytes.at[d]); });
		}
	}
	t.finish(count); // 4.
	own(a.send[0], a.recv[0], a.sendBytes[0], 1);
}

#include "rotation.h"
#include "ll128chain.h"
#include "fused.h"
#include "sendrecv.h"

// broadcast_sentinel hands data on from the root round the ring up to the last rank. sentinel.h has the steps.
KERNEL void broadcast_sentinel(SentinelArgs a) {
	SHARED Numbers numbers;
	sentinelBroadcast(a, numbers, block(), blocks());
}

// move_fused moves parts without a fold: round the ring, or one part down a chain. fused.h has the steps.
KERNEL void move_fused(FusedArgs a) { fused(a, Keep{}); }

// exchange_eager sends and receives messages by eager buffers. The blocks serve the parts of all messages in turn. eager.h has the steps.
KERNEL void exchange_eager(EagerArgs a) {
	SHARED u32 on;
	EagerSlot m(a);
#pragma unroll 1
	for (u32 n = block(); m.take(a, n); n += blocks()) {
		if (m.of.receives) m.receive(on);
		else m.send(on);
	}
}

// rendezvous comes before the two launches of sendrecv. One thread decides which messages the first launch carries:
//   1. Tell the peer that this rank is ready, and what it sends.
//   2. Wait for the peer, and note the messages that the first launch carries. The second carries none so far.
KERNEL void rendezvous(SendRecvArgs a) {
	awaitBefore();
	if (thread() != 0) return;
	Rendezvous m(a);
	m.announce(); // 1.
	postWord(a.carried, m.await(both)); // 2.
	postWord(a.carried + 4, 0);
}

// sendrecv carries what this launch is to carry:
//   1. Some blocks carry the message that is sent.
//   2. Other blocks carry the message that is received.
//   3. In the first launch the last block waits for the message that this launch leaves, and has the second launch carry it.
KERNEL void sendrecv(SendRecvArgs a) {
	SHARED Numbers numbers;
	awaitBefore();
	u32 now = watchWord(a.carried + 4 * a.second), last = blocks() - 1;
	if (block() < a.blocks) { // 1.
		if (now & sends) sentinelBroadcast(a.out, numbers, block(), a.blocks);
	} else if (block() < last) { // 2.
		if (now & receives) sentinelBroadcast(a.in, numbers, block() - a.blocks, last - a.blocks);
	} else if (thread() == 0 && a.second == 0 && now != 0 && now != both) { // 3.
		postWord(a.carried + 4, Rendezvous(a).await(both - now));
	}
}
