// Package tcp moves frames over TCP, one connection per lane and one for control between every two ranks. Without TLS, on
// unix, sockets are read and written on the caller's goroutine without blocking. With TLS, and elsewhere, goroutines move
// bytes between a connection and bounded buffers.
//
// Forming: every rank but the last listens and publishes its addresses under "tcp/<rank>". The higher rank dials the lower
// one, again and again until the context ends. Each connection begins with package transport's handshake, then both sides
// compare their terms (lanes, frame size, compression, checksum). A connection that fails the handshake is logged and
// dropped and does not stop the group from forming. A peer that passes it but has other terms ends Open with an error. A
// rank whose Open fails tells the ranks that it is linked with why, and theirs fails too.
//
// On the wire a frame is its header (64 bytes), then, if Len is not 0, the payload. Flag compressed: the payload is
// replaced by its compressed length (4 bytes, little-endian) and an s2 block or a zstd frame. Flag checksum: a CRC-32C
// (4 bytes, little-endian) of the bytes between header and itself follows.
//
// Invariants, besides those of package transport:
//
//  1. Credit (transport's invariant 3) is what the sockets' buffers take: Send writes into the socket and returns true when
//     the frame is in it whole. Frames up to 64 KiB are taken before the peer reads; larger ones may need it to read. The
//     rule of plan, that steps which send and receive are one exchange step, needs no credit at all.
//  2. Nothing is allocated for a frame once buffers have their size: up to a frame per lane for receiving, as much again
//     for compression.
//  3. A payload given a destination goes there from the socket without a copy in between, but for what came with its
//     header. A payload without one stays in the lane's buffer, at an address that is a multiple of 8.
//  4. A lane that ends is not explained by itself. The error waits up to a second for the control channel to say whether the
//     peer died or said goodbye. The goodbye waits as long for frames that are still on their way on the lanes.
//  5. Close writes goodbye, then ends each lane after the frames that have been sent on it. It waits for the peers' kernels
//     to have them, a second at most. It never waits for a peer to take a frame.
//
// A rank with nothing to do looks for frames for up to 50 µs before it sleeps, through epoll and not at the sockets. Now and then
// it gives its core away. Where ranks of a host outnumber its cores it does so after each look, for up to 200 µs. If other ranks are
// in its process, too, it sleeps at once.
//
// One lane can have a goroutine of its own on Linux, without TLS (transport.Laned). Every lane has a lock for that.
//
// A connection whose two ends have one address takes the congestion control reno while it sends long frames, where it is not encrypted.
// That of the system may send by timers, which only a network needs.
//
// The package never reads the environment and never shrinks or fixes the kernel's socket buffers: their automatic growth
// is better informed.
package tcp
