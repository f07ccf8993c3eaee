// Package transporttest is the conformance suite that every transport passes. It also has what such tests need: a rendezvous
// in memory, and a helper that opens all ranks of a group in one process. Its driver advances frames with the non-blocking
// calls of package transport, as an engine does.
//
// The cases prove, by the numbers of package transport's invariants:
//
//  1. nothing blocks: every case runs on the driver, which has a time limit;
//  2. lanes are independent: a full lane holds up neither other lanes nor notes;
//  3. credit: a lane takes a frame before its peer looks, and refuses frames in the end;
//  4. order, wholeness and once: every payload encodes source, destination, lane, index and position;
//  5. what arrived before a goodbye can still be taken;
//  7. notes pass full lanes;
//  8. closing twice works, and no goroutine is left.
//
// Invariant 6 (hostile input) and the death of a peer belong to each medium's own tests. The package never reads the
// environment and never reaches beyond the meshes it is given.
package transporttest
