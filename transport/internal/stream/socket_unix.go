//go:build unix

package stream

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// socket is a stream over a file descriptor of its own that the runtime's poller does not know.
type socket struct {
	fd         int
	starved    bool // the last read found nothing; for the Waiter that asks for readiness each time
	stuffed    bool // the last write found no room
	finished   bool
	congestion congestion
}

// detach takes a connection's socket away from the runtime: a second descriptor of the same socket lives on, the
// connection is closed.
func detach(conn *net.TCPConn) (*socket, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	var fd int
	var dup error
	if err := raw.Control(func(old uintptr) { fd, dup = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0) }); err != nil {
		return nil, err
	}
	if dup != nil {
		return nil, os.NewSyscallError("fcntl", dup)
	}
	s := &socket{fd: fd}
	if err := errors.Join(conn.Close(), unix.SetNonblock(fd, true)); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Read implements Stream.
func (s *socket) Read(bufs [][]byte) (int, error) {
	for {
		n, err := readVector(s.fd, bufs)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			s.starved = true
			return 0, nil
		case err != nil:
			return 0, os.NewSyscallError("read", err)
		case n == 0:
			return 0, io.EOF
		}
		return n, nil
	}
}

// Write implements Stream.
func (s *socket) Write(bufs [][]byte) (int, error) {
	total := 0
	for _, b := range bufs {
		total += len(b)
	}
	s.congestion.choose(s.fd, total)
	for {
		n, err := writeVector(s.fd, bufs)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			s.stuffed = true
			return 0, nil
		case err != nil:
			return 0, os.NewSyscallError("write", err)
		}
		return n, nil
	}
}

// Finish implements Stream.
func (s *socket) Finish() {
	if !s.finished {
		s.finished = true
		_ = unix.Shutdown(s.fd, unix.SHUT_WR) // a peer that is gone already has nothing to be told
	}
}

// Flushed implements Stream.
func (s *socket) Flushed() bool { return unsent(s.fd) == 0 }

// Close implements Stream.
func (s *socket) Close() { _ = unix.Close(s.fd) }

// New returns a waiter without streams: for TCP connections where all are plain, else for any.
func New(plain bool) (Waiter, error) {
	if !plain {
		return newBell(), nil
	}
	return newWaiter()
}

// adopt makes a stream of a plain connection.
func adopt(conn net.Conn) (*socket, error) {
	c, ok := conn.(*net.TCPConn)
	if !ok {
		return nil, fmt.Errorf("sockets of streams: a %T among TCP connections", conn)
	}
	within := SameHost(conn)
	s, err := detach(c)
	if err != nil {
		return nil, fmt.Errorf("sockets of streams: %w", err)
	}
	s.congestion.within = within
	return s, nil
}
