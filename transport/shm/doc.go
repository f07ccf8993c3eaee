// Package shm moves frames between ranks of one host through shared memory. Every rank makes one segment, a sealed memfd,
// that holds the rings of frames coming to it. There is a ring for each peer and lane. Its lines of 128 bytes have a frame's
// turn, its header, and up to 72 bytes of payload. Longer payloads lie in the line's short slot, or in one of a few long slots,
// which go round on their own. The sender writes payload and header and then stores the line's turn. The receiver polls the
// turn of the line it expects. A message of 8 bytes is therefore one cache line that crosses once. Reductions read straight
// from the slot and write straight into the next one.
//
// A caller can also leave a payload in its place, where the system lets ranks read each other's memory (process_vm_readv). The line
// then has the payload's address, see zerocopy_linux.go. That saves a copy and costs a system call. It was faster on no machine so far
// than copies in the better of their two ways.
//
// A sender copies payloads of 4 KiB and more into slots by stores that pass the caches (non-temporal stores), where that is faster.
// It tries both ways now and then, see filling_linux.go.
//
// The ranks meet over sockets in Linux's abstract namespace. After the handshake of package transport, each passes the
// descriptor of its segment. Then the socket is the control channel, whose end tells of a peer's death. A rank whose Open
// fails tells the ranks that it is linked with why, and theirs fails too.
//
// Invariants:
//
//  1. No segment ever has a name in a file system: when the last rank that maps it is gone, it is gone.
//  2. A word that two ranks use at the same time is only touched through sync/atomic. All else in a slot belongs to the
//     sender until the turn is stored and to the receiver until its taken count is.
//  3. A segment's size is sealed and compared before it is mapped, so that a peer cannot make this rank fault by cutting it.
//     The header in a line is copied once to private memory and checked there. A wrong turn, taken count, header or length
//     is transport.ErrCorrupt. A sender that dies while it writes leaves a line without its turn: never a frame.
//  4. A rank that is about to sleep says so in its segment and then has all links looked at once more. A sender stores the
//     turn first, and looks after that whether the peer sleeps. So either sees the other, and no wake-up is lost. The goroutine to which
//     a lane is lent does the same with a doorbell of its own. A sender on that lane looks at both.
//  5. A rank maps of a peer's segment only the head and the slots of the rings from itself to that peer. The head has the doorbell and
//     the lines of all rings, and says whose memory the peer can read.
//  6. Bytes from a sender's memory count only if the sender still offers them after the read. The token tells that they are of the
//     process that made the link.
//
// A lane has 32 lines with short slots of 4 KiB, and 8 long slots of 128 KiB, by default. With Config.Slots it has so many lines
// and long slots, and no short ones. A segment is at most 256 MiB for any number of ranks and lanes, as long as slots
// of 1 KiB allow that. Pages that no frame has used take no memory. Config.FrameBytes and Config.Slots overrule that limit.
// Headers are checked but not summed: memory is not a network. With Config.Checksum a CRC-32C covers header and payload.
//
// Memory that Slot and Body return must not be used after Close. Close must not run while another goroutine is in a method
// of a Link, or in Spin. It may run beside Wait, Wake and Notify. After it every method returns transport.ErrClosed.
//
// A waiting rank spins for up to 40 µs before it sleeps. Where there are fewer CPUs than ranks, it gives its core away
// between two looks. Between short frames it first looks on for a moment if no rank on the same core owes it one. Where spinning
// turns out not to help it gets shorter. A rank still tries the full time now and then, and goes back to it when that helps. Where
// there are CPUs for all, a rank that would sleep on a peer's core goes to another one instead, at most every 10 ms. It stays
// within the CPUs on which its process may run.
//
// This package makes no files, no threads and no goroutines that touch the rings, and allocates nothing per frame.
package shm
