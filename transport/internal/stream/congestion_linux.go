package stream

import "golang.org/x/sys/unix"

// congestion is the congestion control of a socket whose other end has the same address. That of the host may send by timers, as BBR does, so
// that a network's queues stay short. Within a host there is no such queue, and the timers cost long payloads time. With short ones the
// timers save time: what is sent until one ends becomes one packet. So a socket takes another control with a long write, and the host's
// again after some short ones.
type congestion struct {
	within bool
	own    string // the host's, while the socket has the other; else empty
	short  int    // writes since the last long one
}

const (
	longWrite   = 64 << 10
	shortWrites = 64
)

// unpaced never sends by timers. Every system has it and allows it.
const unpaced = "reno"

// choose is called before n bytes are written.
func (c *congestion) choose(fd, n int) {
	switch {
	case !c.within:
	case n >= longWrite:
		if c.short = 0; c.own == "" {
			c.own, _ = unix.GetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION)
			_ = unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, unpaced) // without it, all works
		}
	case c.own != "":
		if c.short++; c.short == shortWrites {
			_ = unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, c.own)
			c.own = ""
		}
	}
}
