package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"syscall"
	"time"
)

// Limits on what comes from outside. Nothing larger is believed.
const (
	MaxFrame = 16 << 20 // bytes of one payload
	MaxNote  = 64 << 10 // bytes of one control note
	MaxLanes = 64
	MaxSize  = 1 << 16 // ranks of a group
)

// Link carries frames between this rank and one peer. One goroutine at a time uses the links of a mesh, but see Laned.
type Link interface {
	// Slot returns memory of the link in which the payload of the next frame on the lane can be built. It has n bytes, or as
	// many as one frame holds if that is fewer. The result is nil if the lane has no credit now or the medium has no such
	// memory. The slot stays valid until it is sent.
	Slot(lane, n int) []byte
	// Send offers a frame with h.Len = len(p) on lane h.Lane; len(p) is at most MaxFrame(). It returns false if the frame
	// cannot be taken whole now. The caller then offers the same frame again until it is taken, and sends nothing else on
	// the lane before. After true the link needs neither h nor p any more. A p that Slot returned, or a prefix of it, is not
	// copied.
	Send(h *Header, p []byte) (bool, error)
	// Head returns the header of the next frame on a lane, nil if it has not arrived. It stays valid until Release.
	Head(lane int) (*Header, error)
	// Body returns the payload of the frame that Head returned, and whether it is there in full. With a dst of exactly h.Len
	// bytes the payload is put there, without a copy in between where the medium can. The caller passes the same dst until
	// the payload is there. With a nil dst the result is the link's own memory, valid until Release.
	Body(lane int, dst []byte) ([]byte, bool, error)
	// Release gives up the frame that Head returned and its credit back to the peer.
	Release(lane int)
	// MaxFrame returns the largest payload of one frame in bytes, a multiple of 64.
	MaxFrame() int
}

// ZeroCopier is a Link that can leave a payload in its place until the peer has read it. The medium must let the peer read this
// process's memory. The field calls that a rendezvous or zero-copy send.
type ZeroCopier interface {
	// MaxZeroCopy returns the most bytes of one SendZeroCopy, a multiple of 64. It is 0 until the peer is known to read, and the same from
	// then on. If the peer cannot read a payload after all, SendZeroCopy sends it as Send does.
	MaxZeroCopy() int
	// SendZeroCopy offers a frame as Send does, and returns true once the peer has read the payload. Until then p stays as it is, and
	// the caller offers the same frame again. The peer may see it as several frames, which carry the same header but for h.Len.
	SendZeroCopy(h *Header, p []byte) (bool, error)
	// Withdraw ends the peers' use of payloads that they have not read. It is called before a caller gives up a frame that it has
	// offered. The link is then good for nothing but Close.
	Withdraw()
}

// Mesh is all links of one rank in one group.
type Mesh interface {
	// Link returns the link to a peer; the rank itself has none.
	Link(peer int) Link
	// Wait is called when a round over the links has moved nothing; idle counts such rounds since something moved, from
	// 1. It returns when something may have moved, Wake was called, or until has passed (zero: no limit). Early
	// returns are allowed: a mesh may spin for small idle, and may return once to have the links looked at again before
	// it sleeps.
	Wait(idle int, until time.Time)
	// Wake ends a Wait from any goroutine.
	Wake()
	// Notify sends a control note of at most MaxNote bytes to a peer, from any goroutine, past all lanes. It returns once
	// the note is on its way, and does not wait for a peer that does not listen.
	Notify(peer int, note []byte) error
	// Close says goodbye to the peers and gives everything back.
	Close() error
	// String names the medium: "sim", "shm" or "tcp".
	String() string
}

// Spinner is a Mesh with moments too short for a look at the clock. Before Wait is called in an idle round, Spin may be, by the
// same goroutine and with the same count. It passes a moment and reports whether the links can be looked at again at once.
// If not, Wait follows. Unlike Wait it must not run beside Close.
type Spinner interface {
	Spin(idle int) bool
}

// Laned is a Mesh that can lend one lane to a goroutine. It uses the lane by the methods of links that take one, or a header with one.
// Another goroutine uses the other lanes, and the rest, meanwhile.
type Laned interface {
	// Lane returns what waits for frames of a lane. It is nil where the mesh cannot do that, and for a second lane.
	Lane(lane int) LaneWaiter
}

// LaneWaiter is to one lane what the methods of the same names are to a Mesh. Mesh.Wake ends its Wait, too.
type LaneWaiter interface {
	Wait(idle int, until time.Time)
	Wake()
}

// Events are called by a mesh from goroutines of its own; they must return soon and not call Close.
type Events struct {
	Linked func(peer int)              // all connections with the peer are there; once for each peer, before Open returns
	Note   func(peer int, note []byte) // a note has come; the bytes belong to the callee
	Lost   func(peer int, err error)   // the peer is gone: died, gave up, unreachable, or (ErrGoodbye) closed its mesh
}

// Rendezvous exchanges the addresses by which ranks find one another. A store.Store is one. Get waits for the key.
type Rendezvous interface {
	Set(ctx context.Context, key string, value []byte) error
	Get(ctx context.Context, key string) ([]byte, error)
}

// Config is what every medium needs to open a mesh. Open returns when this rank is linked with every peer, or fails as
// soon as one cannot be, saying which.
type Config struct {
	Rank, Size int
	Group      uint32     // identity of the group, equal on all ranks, in every frame
	Name       string     // the group's name for messages
	Lanes      int        // lanes of each link, 1 to MaxLanes
	Secret     []byte     // shared by the ranks of the group through the store; the handshake proves it
	Rendezvous Rendezvous // keys are prefixed by the caller
	Events     Events
	Log        *slog.Logger // nil discards

	Host        string      // tcp: address or interface name to listen on; empty: chosen by reachability
	Probe       string      // tcp: host:port whose route tells the interface (the store's address)
	TLS         *tls.Config // tcp: encrypts data and control when set
	Compression string      // tcp: "", "s2" or "zstd"
	FrameBytes  int         // payload of one frame at most; 0 leaves it to the medium
	Slots       int         // shm, sim: frames of credit on a lane; 0 leaves it to the medium
	Checksum    bool        // guard payloads with a CRC-32C, and headers in shared memory; headers on a wire always are
}

// Errors that callers branch on.
var (
	ErrLost    = errors.New("peer lost")
	ErrGoodbye = errors.New("peer closed the group")
	ErrCorrupt = errors.New("corrupt frame")
	ErrClosed  = errors.New("mesh closed")
)

// Gone reports whether an error of a connection means that nobody is at its other end any more: the process died or gave up.
func Gone(err error) bool {
	for _, gone := range []error{ErrLost, io.EOF, io.ErrUnexpectedEOF, syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, gone) {
			return true
		}
	}
	return false
}

// PeerError says which peer a link's error is about.
type PeerError struct {
	Peer int
	Err  error
}

// Error says it on one line. It names the rank once, also where the cause names it, too.
func (e *PeerError) Error() string {
	who, why := fmt.Sprintf("rank %d: ", e.Peer), fmt.Sprint(e.Err)
	return who + strings.TrimPrefix(why, who)
}

// Unwrap returns the cause.
func (e *PeerError) Unwrap() error { return e.Err }

// Validate says what is wrong with a configuration, nil if nothing is.
func (c *Config) Validate() error {
	switch {
	case c.Size < 1 || c.Size > MaxSize || c.Rank < 0 || c.Rank >= c.Size:
		return fmt.Errorf("transport: rank %d of %d ranks", c.Rank, c.Size)
	case c.Lanes < 1 || c.Lanes > MaxLanes:
		return fmt.Errorf("transport: %d lanes, allowed are 1 to %d", c.Lanes, MaxLanes)
	case c.FrameBytes < 0 || c.FrameBytes > MaxFrame || c.FrameBytes%64 != 0:
		return fmt.Errorf("transport: frames of %d bytes, allowed are multiples of 64 up to %d", c.FrameBytes, MaxFrame)
	}
	return nil
}
