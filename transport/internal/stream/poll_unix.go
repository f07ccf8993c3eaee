//go:build unix

package stream

import (
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// poll waits with poll(2), for systems without epoll. It asks about the sockets that refused since it last reported
// them, so that a frame nobody takes wakes nobody twice.
type poll struct {
	sockets []*socket
	set     []unix.PollFd
	asked   []*socket // of set, from 1
	ear     int       // the pipe by which wake is heard
	mouth   int
	woken   atomic.Bool
	mu      sync.Mutex // guards closed against wake
	closed  bool
}

func newPoll(sockets []*socket) (*poll, error) {
	var fds [2]int
	if err := unix.Pipe(fds[:]); err != nil {
		return nil, os.NewSyscallError("pipe", err)
	}
	p := &poll{sockets: sockets, ear: fds[0], mouth: fds[1]}
	for _, fd := range fds {
		unix.CloseOnExec(fd)
		if err := unix.SetNonblock(fd, true); err != nil {
			p.Close()
			return nil, os.NewSyscallError("fcntl", err)
		}
	}
	return p, nil
}

// Polled returns a waiter by poll(2) for streams of plain connections that another waiter has made.
func Polled(streams []Stream) (Waiter, error) {
	sockets := make([]*socket, len(streams))
	for i, s := range streams {
		sockets[i] = s.(*socket)
	}
	return newPoll(sockets)
}

// Add implements Waiter.
func (p *poll) Add(conn net.Conn) (Stream, error) {
	s, err := adopt(conn)
	if err != nil {
		return nil, err
	}
	p.sockets = append(p.sockets, s)
	return s, nil
}

// SleepAtOnce implements Waiter.
func (p *poll) SleepAtOnce() {}

// Wait implements Waiter.
func (p *poll) Wait(until time.Time) {
	p.set = append(p.set[:0], unix.PollFd{Fd: int32(p.ear), Events: unix.POLLIN})
	p.asked = append(p.asked[:0], nil)
	for _, s := range p.sockets {
		var events int16
		if s.starved {
			events |= unix.POLLIN
		}
		if s.stuffed {
			events |= unix.POLLOUT
		}
		if events != 0 {
			p.set, p.asked = append(p.set, unix.PollFd{Fd: int32(s.fd), Events: events}), append(p.asked, s)
		}
	}
	if n, err := unix.Poll(p.set, milliseconds(until)); err != nil || n == 0 {
		return // interrupted or out of time: both are allowed
	}
	for i, f := range p.set[1:] {
		if f.Revents != 0 {
			p.asked[i+1].starved, p.asked[i+1].stuffed = false, false
		}
	}
	if p.set[0].Revents != 0 {
		var b [16]byte
		_, _ = unix.Read(p.ear, b[:])
		p.woken.Store(false) // as in epoll
	}
}

// Ready implements Waiter: it cannot tell.
func (p *poll) Ready() bool { return true }

// Wake implements Waiter.
func (p *poll) Wake() {
	if p.woken.Swap(true) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		_, _ = unix.Write(p.mouth, []byte{1})
	}
}

// Close implements Waiter.
func (p *poll) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.closed = true
		unix.Close(p.ear)
		unix.Close(p.mouth)
	}
}

// milliseconds is the time until a moment as epoll_wait and poll want it, rounded up; -1 for no limit.
func milliseconds(until time.Time) int {
	if until.IsZero() {
		return -1
	}
	d := time.Until(until)
	if d <= 0 {
		return 0
	}
	return int(min((d+time.Millisecond-1)/time.Millisecond, 1<<30))
}
