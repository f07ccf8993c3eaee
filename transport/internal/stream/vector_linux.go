package stream

import "golang.org/x/sys/unix"

// unsent is the bytes that the peer's kernel has not acknowledged, the end of the stream counting as one.
func unsent(fd int) int {
	n, err := unix.IoctlGetInt(fd, unix.SIOCOUTQ)
	if err != nil {
		return 0
	}
	return n
}

func newWaiter() (Waiter, error) { return newEpoll() }
