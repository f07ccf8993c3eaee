// Package gloo links a rank with ranks of PyTorch's ProcessGroupGloo: the addresses, the rendezvous, and the messages of
// Gloo's TCP transport on Linux. Between two ranks there is one connection. It knows nothing of collectives.
//
// A message belongs to a slot, a number that both ends compute. It moves in four steps:
//
//  1. The sender tells the receiver of it (notice of a send). Announce does so.
//  2. The receiver tells the sender that its receive is posted (notice of a receive). Post does so.
//  3. When both have been told, the sender writes the payload. Write does so.
//  4. The payload belongs to the oldest receive of the slot. Body takes it.
//
// Messages of one slot and pair match in their order. Slots are independent of one another.
//
// Between two ranks of this package on one host, step 3 leaves a long payload in the sender's memory. The receiver reads it there, where
// the system allows that (process_vm_readv), see zerocopy.go. For ranks of PyTorch nothing changes.
//
// Invariants:
//
//  1. No payload is written without a notice of its receive. A peer in C++ aborts when it gets one that it has not asked for. Nor does
//     such a peer get a message that Gloo does not know.
//  2. Both notices carry a length. The two lengths are compared before a payload is written or taken; unequal ones end the mesh.
//  3. Nothing else is written to a connection between the first and the last byte of a payload.
//  4. The number of announcements that wait is bounded, and so is every length that is read. No memory is taken because a peer
//     announces a length.
//  5. Close ends every connection after what was written to it. Abort ends them at once. Either way peers learn of the end only
//     by it, for Gloo has no other message that says so.
//  6. Bytes from a peer's memory count only if the peer's token stood after the read. The peer clears it before its callers get the
//     memory back.
//
// Ranks find each other by one of two dialects of rendezvous. Old is the dialect of Gloo before May 2023 (PyTorch 1.13), New
// the dialect since July 2023 (PyTorch 2.1). A rank of New publishes a sequence number for every peer, by which the peer introduces itself. Peers that
// connect lazily publish none; then a rank introduces itself by its own number, and does not wait for peers that dial it.
//
// The protocol has no authentication. In the new dialect, connections that introduce themselves wrongly are dropped. In the old one
// nothing introduces them, and those from elsewhere than the peer's address are dropped.
package gloo
