package stream

import "golang.org/x/sys/unix"

// unpaced has a socket send as fast as its receiver takes. The host's congestion control may send by timers instead, as BBR does, so that
// a network's queues stay short. Within a host there is no such queue, and the timers only cost long payloads time.
func unpaced(fd int) {
	_ = unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, "reno") // every system has it and allows it; without it, all works
}
