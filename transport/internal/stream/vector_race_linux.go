//go:build race

package stream

import "golang.org/x/sys/unix"

// Under the race detector the calls go through the runtime, which tells it what memory they read and write.
func readVector(fd int, bufs [][]byte) (int, error)  { return unix.Readv(fd, bufs) }
func writeVector(fd int, bufs [][]byte) (int, error) { return unix.Writev(fd, bufs) }
