// The arguments of the entry points, one struct each. The Go structs of the same names (kernels/ptx/args.go) have the same layout. The
// generator copies the offsets that are asserted here into a table, and a Go test compares the Go structs with it.
#pragma once
#include "device.h"

constexpr int maxRanks = 8;
constexpr int depth = 4; // tiles of one pair in flight
constexpr u32 abortedAt = 4; // where in a rank's counters the word lies that an aborted loop sets (watch.h)

// Arrays with an entry for each rank of the group are indexed by peer index. Entry d belongs to rank (rank + d) mod size,
// and entry 0 to this rank. So every rank starts with another peer.

struct GroupArgs {
	u64 ll[maxRanks];    // each rank's LL memory
	u64 tiles[maxRanks]; // each rank's tile memory
	u64 flags[maxRanks]; // each rank's flag words
	u64 state;           // this rank's counters, on its own device
	u64 abort;           // host words: [0] is the abort flag; [1 + q] is set by an aborted loop that waited for rank q,
	                     // [1 + maxRanks + q] by a kernel whose mark is not rank q's
	u32 rank, size;
	u32 llSlot;   // bytes that LL memory has for one peer in one half
	u32 tileSlot; // bytes of one tile at most
};

struct ReduceArgs {
	u64 out;
	u64 in[maxRanks];
	u64 bytes;
	u32 sources; // 2 to 8
	u32 divisor; // above 1, it is the number of ranks of an average
	u32 sums;    // 1: the last source is the sum of several ranks, weighted already; 0: it is a rank's input, as the others are
	u32 partial; // 1: the result is not yet the sum of all ranks
};

struct AllReduceArgs {
	GroupArgs group;
	u64 in, out, bytes;
	u64 part;    // bytes of a rank's part, a multiple of 16; the last parts may be short or empty
	u32 divisor; // as in ReduceArgs
	u32 tile;    // bytes, a multiple of 16, at most group.tileSlot
};

struct LL128Args {
	GroupArgs group;
	u64 ll128[maxRanks]; // each rank's LL128 memory
	u64 in, out, bytes;
	u64 part; // as in AllReduceArgs
	u32 divisor;
	u32 slot; // bytes that LL128 memory has for one peer in one half, a multiple of 1024
};

struct DirectArgs {
	GroupArgs group;
	u64 outs[maxRanks]; // each rank's output as this device sees it
	u64 in, bytes;
	u64 part;    // as in AllReduceArgs
	u64 marks;   // where ranks post their mark, in bytes from the flag words
	u32 divisor, tile;
	u32 mark; // equal on all ranks if they mean the same memory
	u32 unused;
};

struct ReduceScatterArgs {
	GroupArgs group;
	u64 in, out;
	u64 offset[maxRanks]; // where each rank's part begins in in, in bytes
	u64 bytes[maxRanks];  // length of each rank's part
	u32 divisor, tile;
};

struct EvenArgs {
	GroupArgs group;
	u64 in, out;
	u64 part; // bytes, a multiple of 16
	u64 step; // from one rank's part in in to the next, 0 if all are sent the same
	u32 divisor, unused;
};

struct ExchangeArgs {
	GroupArgs group;
	u64 send[maxRanks];
	u64 sendBytes[maxRanks];
	u64 recv[maxRanks];
	u64 recvBytes[maxRanks];
	u32 tile;
	u32 pieces; // of exchange_rotation: pieces of tile memory that a block has of each sender
};

struct DirectExchangeArgs {
	GroupArgs group;
	u64 send[maxRanks];
	u64 sendBytes[maxRanks];
	u64 recv[maxRanks]; // addresses in the peers' outputs, as this device sees them
	u64 marks;          // as in DirectArgs
	u32 mark, unused;
};

struct BroadcastArgs {
	GroupArgs group;
	u64 in;           // of the root
	u64 out;          // of the others
	u64 bytes;        // 1 at least
	u32 root, unused; // the root's peer index
};

struct ChainArgs {
	GroupArgs group;
	u64 in;    // of the root
	u64 out;   // of the others
	u64 next;  // with direct: the output of the next rank as this device sees it
	u64 bytes;
	u64 marks; // as in DirectArgs
	u32 before, after; // peer indices of the ranks before and after this one, 0 for none
	u32 tile, mark;
	u32 direct;
	u32 pieces; // as in ExchangeArgs
};

struct LL128ChainArgs {
	GroupArgs group;
	u64 ll128[maxRanks]; // as in LL128Args, and slot
	u64 in;              // of the root
	u64 out;             // of the others
	u64 bytes;           // at least 1
	u32 before, after;   // as in ChainArgs
	u32 slot, unused;
};

struct SentinelArgs {
	GroupArgs group;
	u64 memory, next;         // sentinel memory of this rank and of the next one
	u64 counts;               // 8 bytes for each warp, on this rank
	u64 credits, prevCredits; // words for each warp: the credits that the next rank returns, and those at the rank before
	u64 in, out, bytes;
	u64 part; // as in AllReduceArgs
	u32 sentinel[4];
	u32 slots, blocks; // of sentinel memory: at least size slots, and sentinelWarps warps in a block
	u32 divisor;       // as in ReduceArgs
	u32 ends;          // of a broadcast: 1 is the root, which takes nothing, 2 the last rank, which puts nothing
	u32 before, after; // peer indices of the previous rank, which sends lines to this one, and of the next
};

enum { chainRoot = 1, chainMiddle, chainLast };

struct FusedArgs {
	GroupArgs group;
	u64 slots, next;        // two slots of this rank, and of the next one
	u64 counts;             // a word for each block, of this rank
	u64 credit, prevCredit; // the word by which the next rank gives this one credit, and that at the rank before
	u64 go;                 // two words of this rank for which a stream waits
	u64 bytes;              // of the whole tensor
	u64 ins[maxRanks];      // of parts, by peer index
	u64 outs[maxRanks];     // of parts, by peer index
	u64 part;               // as in AllReduceArgs
	u64 slot, slice;        // bytes from one slot to the other, and of the longest slice: a multiple of 16
	u64 head;               // bytes that the kernel sends of each slice: a multiple of spanBytes, or all
	u32 sentinel[4];
	u32 steps, folds; // steps of the ring, and how many of them, the first ones, fold
	u32 divisor;      // as in ReduceArgs
	u32 chain;        // chainRoot, chainMiddle or chainLast, or 0 in a ring
};

constexpr u32 mostCode = 1u << 30;
constexpr int mostMessages = 8;

struct Message {
	u64 at, bytes;
	u64 data;                // the eager buffer, on the receiver
	u64 arrived, free, tags; // words of the first slot; each slot has two tags, check and label
	u32 slot, part;          // bytes from slot to slot, and of the part in each slot
	u32 first, slots;        // the slot in which the message begins, and the number of slots
	u32 code, label;
	u32 peer;     // a rank
	u32 parts;    // each has a slot
	u32 receives; // 0 if the message is sent
};

struct EagerArgs {
	u64 state, abort; // as in GroupArgs
	Message messages[mostMessages];
};

struct SendRecvArgs {
	SentinelArgs out, in;
	Message sent, received;           // the rendezvous messages, without bytes
	u64 clearToSend, peerClearToSend; // the word that the peer sets on this rank, and that on the peer
	u64 carried;                      // two words of this rank: the messages that each launch carries
	u32 blocks, second;               // blocks that carry out; 1 in the second launch
};

struct CopyArgs {
	u64 out, in, bytes;
};

struct FillArgs {
	u64 out, lines;
	u32 line[4];
};

struct UnaryArgs {
	u64 out, in, count; // elements
	u64 factorAt;       // address of one element, or 0 for factor
	double factor;
};

#define OFFSET(type, field, at) static_assert(__builtin_offsetof(type, field) == at)
#define SIZE(type, bytes) static_assert(sizeof(type) == bytes)

OFFSET(GroupArgs, ll, 0);
OFFSET(GroupArgs, tiles, 64);
OFFSET(GroupArgs, flags, 128);
OFFSET(GroupArgs, state, 192);
OFFSET(GroupArgs, abort, 200);
OFFSET(GroupArgs, rank, 208);
OFFSET(GroupArgs, size, 212);
OFFSET(GroupArgs, llSlot, 216);
OFFSET(GroupArgs, tileSlot, 220);
SIZE(GroupArgs, 224);
OFFSET(ReduceArgs, out, 0);
OFFSET(ReduceArgs, in, 8);
OFFSET(ReduceArgs, bytes, 72);
OFFSET(ReduceArgs, sources, 80);
OFFSET(ReduceArgs, divisor, 84);
OFFSET(ReduceArgs, sums, 88);
OFFSET(ReduceArgs, partial, 92);
SIZE(ReduceArgs, 96);
OFFSET(AllReduceArgs, group, 0);
OFFSET(AllReduceArgs, in, 224);
OFFSET(AllReduceArgs, out, 232);
OFFSET(AllReduceArgs, bytes, 240);
OFFSET(AllReduceArgs, part, 248);
OFFSET(AllReduceArgs, divisor, 256);
OFFSET(AllReduceArgs, tile, 260);
SIZE(AllReduceArgs, 264);
OFFSET(LL128Args, group, 0);
OFFSET(LL128Args, ll128, 224);
OFFSET(LL128Args, in, 288);
OFFSET(LL128Args, out, 296);
OFFSET(LL128Args, bytes, 304);
OFFSET(LL128Args, part, 312);
OFFSET(LL128Args, divisor, 320);
OFFSET(LL128Args, slot, 324);
SIZE(LL128Args, 328);
OFFSET(DirectArgs, group, 0);
OFFSET(DirectArgs, outs, 224);
OFFSET(DirectArgs, in, 288);
OFFSET(DirectArgs, bytes, 296);
OFFSET(DirectArgs, part, 304);
OFFSET(DirectArgs, marks, 312);
OFFSET(DirectArgs, divisor, 320);
OFFSET(DirectArgs, tile, 324);
OFFSET(DirectArgs, mark, 328);
SIZE(DirectArgs, 336);
OFFSET(ReduceScatterArgs, group, 0);
OFFSET(ReduceScatterArgs, in, 224);
OFFSET(ReduceScatterArgs, out, 232);
OFFSET(ReduceScatterArgs, offset, 240);
OFFSET(ReduceScatterArgs, bytes, 304);
OFFSET(ReduceScatterArgs, divisor, 368);
OFFSET(ReduceScatterArgs, tile, 372);
SIZE(ReduceScatterArgs, 376);
OFFSET(EvenArgs, group, 0);
OFFSET(EvenArgs, in, 224);
OFFSET(EvenArgs, out, 232);
OFFSET(EvenArgs, part, 240);
OFFSET(EvenArgs, step, 248);
OFFSET(EvenArgs, divisor, 256);
SIZE(EvenArgs, 264);
OFFSET(ExchangeArgs, group, 0);
OFFSET(ExchangeArgs, send, 224);
OFFSET(ExchangeArgs, sendBytes, 288);
OFFSET(ExchangeArgs, recv, 352);
OFFSET(ExchangeArgs, recvBytes, 416);
OFFSET(ExchangeArgs, tile, 480);
OFFSET(ExchangeArgs, pieces, 484);
SIZE(ExchangeArgs, 488);
OFFSET(DirectExchangeArgs, group, 0);
OFFSET(DirectExchangeArgs, send, 224);
OFFSET(DirectExchangeArgs, sendBytes, 288);
OFFSET(DirectExchangeArgs, recv, 352);
OFFSET(DirectExchangeArgs, marks, 416);
OFFSET(DirectExchangeArgs, mark, 424);
SIZE(DirectExchangeArgs, 432);
OFFSET(BroadcastArgs, group, 0);
OFFSET(BroadcastArgs, in, 224);
OFFSET(BroadcastArgs, out, 232);
OFFSET(BroadcastArgs, bytes, 240);
OFFSET(BroadcastArgs, root, 248);
SIZE(BroadcastArgs, 256);
OFFSET(ChainArgs, group, 0);
OFFSET(ChainArgs, in, 224);
OFFSET(ChainArgs, out, 232);
OFFSET(ChainArgs, next, 240);
OFFSET(ChainArgs, bytes, 248);
OFFSET(ChainArgs, marks, 256);
OFFSET(ChainArgs, before, 264);
OFFSET(ChainArgs, after, 268);
OFFSET(ChainArgs, tile, 272);
OFFSET(ChainArgs, mark, 276);
OFFSET(ChainArgs, direct, 280);
OFFSET(ChainArgs, pieces, 284);
SIZE(ChainArgs, 288);
OFFSET(LL128ChainArgs, group, 0);
OFFSET(LL128ChainArgs, ll128, 224);
OFFSET(LL128ChainArgs, in, 288);
OFFSET(LL128ChainArgs, out, 296);
OFFSET(LL128ChainArgs, bytes, 304);
OFFSET(LL128ChainArgs, before, 312);
OFFSET(LL128ChainArgs, after, 316);
OFFSET(LL128ChainArgs, slot, 320);
SIZE(LL128ChainArgs, 328);
OFFSET(SentinelArgs, group, 0);
OFFSET(SentinelArgs, memory, 224);
OFFSET(SentinelArgs, next, 232);
OFFSET(SentinelArgs, counts, 240);
OFFSET(SentinelArgs, credits, 248);
OFFSET(SentinelArgs, prevCredits, 256);
OFFSET(SentinelArgs, in, 264);
OFFSET(SentinelArgs, out, 272);
OFFSET(SentinelArgs, bytes, 280);
OFFSET(SentinelArgs, part, 288);
OFFSET(SentinelArgs, sentinel, 296);
OFFSET(SentinelArgs, slots, 312);
OFFSET(SentinelArgs, blocks, 316);
OFFSET(SentinelArgs, divisor, 320);
OFFSET(SentinelArgs, ends, 324);
OFFSET(SentinelArgs, before, 328);
OFFSET(SentinelArgs, after, 332);
SIZE(SentinelArgs, 336);
OFFSET(FusedArgs, group, 0);
OFFSET(FusedArgs, slots, 224);
OFFSET(FusedArgs, next, 232);
OFFSET(FusedArgs, counts, 240);
OFFSET(FusedArgs, credit, 248);
OFFSET(FusedArgs, prevCredit, 256);
OFFSET(FusedArgs, go, 264);
OFFSET(FusedArgs, bytes, 272);
OFFSET(FusedArgs, ins, 280);
OFFSET(FusedArgs, outs, 344);
OFFSET(FusedArgs, part, 408);
OFFSET(FusedArgs, slot, 416);
OFFSET(FusedArgs, slice, 424);
OFFSET(FusedArgs, head, 432);
OFFSET(FusedArgs, sentinel, 440);
OFFSET(FusedArgs, steps, 456);
OFFSET(FusedArgs, folds, 460);
OFFSET(FusedArgs, divisor, 464);
OFFSET(FusedArgs, chain, 468);
SIZE(FusedArgs, 472);
OFFSET(Message, at, 0);
OFFSET(Message, bytes, 8);
OFFSET(Message, data, 16);
OFFSET(Message, arrived, 24);
OFFSET(Message, free, 32);
OFFSET(Message, tags, 40);
OFFSET(Message, slot, 48);
OFFSET(Message, part, 52);
OFFSET(Message, first, 56);
OFFSET(Message, slots, 60);
OFFSET(Message, code, 64);
OFFSET(Message, label, 68);
OFFSET(Message, peer, 72);
OFFSET(Message, parts, 76);
OFFSET(Message, receives, 80);
SIZE(Message, 88);
OFFSET(EagerArgs, state, 0);
OFFSET(EagerArgs, abort, 8);
OFFSET(EagerArgs, messages, 16);
SIZE(EagerArgs, 720);
OFFSET(SendRecvArgs, out, 0);
OFFSET(SendRecvArgs, in, 336);
OFFSET(SendRecvArgs, sent, 672);
OFFSET(SendRecvArgs, received, 760);
OFFSET(SendRecvArgs, clearToSend, 848);
OFFSET(SendRecvArgs, peerClearToSend, 856);
OFFSET(SendRecvArgs, carried, 864);
OFFSET(SendRecvArgs, blocks, 872);
OFFSET(SendRecvArgs, second, 876);
SIZE(SendRecvArgs, 880);
OFFSET(CopyArgs, out, 0);
OFFSET(CopyArgs, in, 8);
OFFSET(CopyArgs, bytes, 16);
SIZE(CopyArgs, 24);
OFFSET(FillArgs, out, 0);
OFFSET(FillArgs, lines, 8);
OFFSET(FillArgs, line, 16);
SIZE(FillArgs, 32);
OFFSET(UnaryArgs, out, 0);
OFFSET(UnaryArgs, in, 8);
OFFSET(UnaryArgs, count, 16);
OFFSET(UnaryArgs, factorAt, 24);
OFFSET(UnaryArgs, factor, 32);
SIZE(UnaryArgs, 40);
