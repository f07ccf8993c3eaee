// Package transport says how ranks exchange frames. It has the Link to one peer, the Mesh of all links of a rank, and the
// frame header with its codec. It also has the handshake by which two ranks prove who they are. Packages sim, shm and tcp
// under it each move frames over one medium; transporttest is the suite that all of them pass.
//
// Invariants, numbered so that code and tests can cite them:
//
//  1. No method of a Link blocks. If a call cannot be served now, the caller makes it again after Mesh.Wait.
//  2. Lanes are independent: a frame that nobody takes on one lane never holds up another lane or the control channel.
//  3. Credit: a lane takes at least one frame towards each peer before that peer takes anything off it. Over tcp it is one
//     of up to 64 KiB, as far as the sockets' buffers reach. A frame beyond the credit is refused by Send, not buffered.
//  4. Frames of a lane arrive in order, whole and once, or the link reports an error. After an error it reports the same
//     error for ever.
//  5. Frames that arrived before a peer was lost or said goodbye can still be taken; the error comes after them.
//  6. Everything that comes from outside is hostile until the handshake and the header check have passed. No length is used
//     before it is compared with a limit of this package.
//  7. The control channel (Notify) works while every lane is full or broken, and tells within moments of a peer's death.
//  8. Close gives back every file, segment, goroutine and byte, whatever state the peers are in, and may be called twice.
package transport
