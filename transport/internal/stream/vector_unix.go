//go:build unix && !linux

package stream

import "golang.org/x/sys/unix"

func readVector(fd int, bufs [][]byte) (int, error) {
	n, _, _, _, err := unix.RecvmsgBuffers(fd, bufs, nil, 0)
	return n, err
}

func writeVector(fd int, bufs [][]byte) (int, error) {
	return unix.SendmsgBuffers(fd, bufs, nil, nil, 0)
}

// unsent is not to be had alike on these systems; the kernel goes on sending after the socket is closed.
func unsent(int) int { return 0 }

func newWaiter() (Waiter, error) { return newPoll(nil) }
