//go:build unix

package tcp

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
	fd       int
	starved  bool // the last read found nothing; for the waiter that asks for readiness each time
	stuffed  bool // the last write found no room
	finished bool
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
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *socket) read(bufs [][]byte) (int, error) {
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

func (s *socket) write(bufs [][]byte) (int, error) {
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

func (s *socket) finish() {
	if !s.finished {
		s.finished = true
		_ = unix.Shutdown(s.fd, unix.SHUT_WR) // a peer that is gone already has nothing to be told
	}
}

func (s *socket) flushed() bool { return unsent(s.fd) == 0 }

func (s *socket) close() { _ = unix.Close(s.fd) }

// openStreams makes the streams of a mesh and what waits for them: sockets, or pumps if a connection is encrypted.
func openStreams(conns []net.Conn) ([]stream, waiter, error) {
	for _, conn := range conns {
		if _, ok := conn.(*net.TCPConn); !ok {
			streams, w := pumps(conns)
			return streams, w, nil
		}
	}
	sockets := make([]*socket, 0, len(conns))
	streams := make([]stream, 0, len(conns))
	undo := func(err error) ([]stream, waiter, error) {
		for _, s := range sockets {
			s.close()
		}
		return nil, nil, fmt.Errorf("tcp: sockets of lanes: %w", err)
	}
	for _, conn := range conns {
		s, err := detach(conn.(*net.TCPConn))
		if err != nil {
			return undo(err)
		}
		sockets, streams = append(sockets, s), append(streams, s)
	}
	w, err := newWaiter(sockets)
	if err != nil {
		return undo(err)
	}
	return streams, w, nil
}
