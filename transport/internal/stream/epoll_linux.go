package stream

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// epoll waits for edges: each socket is registered once, and reports only when bytes, room or an end have come since the
// last report. A frame that nobody takes therefore wakes nobody twice. Readers and writers go on until the socket
// refuses, so that no edge is missed.
//
// A second epoll descriptor, the gate, is watched by the runtime's poller. So a sleeping rank is a parked goroutine and not a
// blocked thread. Ranks that share a process then hand over in half the time. The gate looks at the first descriptor only
// while the rank sleeps. Without a gate, each frame that a looking rank takes would wake the runtime's poller for nothing. A rank that
// never looks has no gate: the runtime's poller watches the first descriptor itself. A sleep is three system calls less then.
type epoll struct {
	file   *os.File // the gate, or fd if there is none
	gate   int      // the same, noGate if there is none
	fd     int      // of the sockets
	raw    syscall.RawConn
	event  int // an eventfd, by which wake is heard
	until  time.Time
	events [64]unix.EpollEvent
	n      int                   // events that came
	look   func(fd uintptr) bool // fills events, says whether there were any
	woken  atomic.Bool
	mu     sync.Mutex // guards closed against wake
	closed bool
}

const noGate = -1

func newEpoll() (*epoll, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	gate, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		unix.Close(fd)
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		unix.Close(fd)
		unix.Close(gate)
		return nil, os.NewSyscallError("eventfd", err)
	}
	err = errors.Join(add(fd, event, unix.EPOLLIN), add(gate, fd, 0), unix.SetNonblock(gate, true)) // by which os knows what it can watch
	e := &epoll{file: os.NewFile(uintptr(gate), "epoll"), gate: gate, fd: fd, event: event}
	e.look = e.came
	if err == nil {
		e.raw, err = e.file.SyscallConn()
	}
	if err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
}

// came takes the events that there are, and reports whether there were any.
func (e *epoll) came(uintptr) bool {
	e.take()
	return e.n > 0
}

// take takes the events that there are. It does not wait, so the runtime does not hear of the call; see vector.
func (e *epoll) take() {
	errno := unix.EINTR
	for errno == unix.EINTR {
		var n uintptr
		n, _, errno = unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(e.fd), uintptr(unsafe.Pointer(&e.events)), uintptr(len(e.events)), 0, 0, 0)
		e.n = int(n)
	}
	if errno != 0 {
		e.n = 0
	}
}

// guard opens the gate for events, or closes it.
func (e *epoll) guard(events uint32) error {
	return unix.EpollCtl(e.gate, unix.EPOLL_CTL_MOD, e.fd, &unix.EpollEvent{Events: events, Fd: int32(e.fd)})
}

func add(epoll, fd int, events uint32) error {
	err := unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)})
	return os.NewSyscallError("epoll_ctl", err)
}

// Add implements Waiter.
func (e *epoll) Add(conn net.Conn) (Stream, error) {
	s, err := adopt(conn)
	if err != nil {
		return nil, err
	}
	if err := add(e.fd, s.fd, unix.EPOLLIN|unix.EPOLLOUT|unix.EPOLLRDHUP|unix.EPOLLET); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// SleepAtOnce implements Waiter. If the first descriptor cannot be watched by itself, the gate stays.
func (e *epoll) SleepAtOnce() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || e.gate == noGate || unix.SetNonblock(e.fd, true) != nil {
		return
	}
	file := os.NewFile(uintptr(e.fd), "epoll")
	raw, err := file.SyscallConn()
	if err != nil {
		return
	}
	e.file.Close()
	e.file, e.raw, e.gate = file, raw, noGate
}

// Wait implements Waiter.
func (e *epoll) Wait(until time.Time) {
	if !until.Equal(e.until) {
		e.until = until
		_ = e.file.SetReadDeadline(until) // fails only when closed, which the next call finds too
	}
	if e.gate == noGate {
		e.n = 0
		_ = e.raw.Read(e.look) // as below
		e.hear()
		return
	}
	// Events of frames that have been taken by looking are still there. With them the caller looks once more, and then sleeps.
	if e.Ready() {
		return
	}
	// The gate opens before the last look, because it tells surely only of events that come while it is open. Over an older event
	// it may open in silence: Linux wakes nobody while the gate still lists the event of the sleep before.
	_ = e.guard(unix.EPOLLIN) // cannot fail with both descriptors open
	_ = e.raw.Read(e.look)    // an error is the deadline or the end: both are returns
	_ = e.guard(0)
	e.hear()
}

// Ready implements Waiter. It asks the system for no socket, and so does not hold up the sender of what is awaited.
func (e *epoll) Ready() bool {
	e.take()
	e.hear()
	return e.n > 0
}

// hear takes back what wake has left among the events.
func (e *epoll) hear() {
	for i := range e.n {
		if int(e.events[i].Fd) == e.event {
			var count [8]byte
			_, _ = unix.Read(e.event, count[:])
			// A call of wake before this line is heard: the caller of wait looks at the links after it.
			e.woken.Store(false)
		}
	}
}

// Wake implements Waiter.
func (e *epoll) Wake() {
	if e.woken.Swap(true) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed {
		_, _ = unix.Write(e.event, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // can fail only if the counter is full, that is, woken
	}
}

// Close implements Waiter.
func (e *epoll) Close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed {
		e.closed = true
		unix.Close(e.event)
		if e.gate != noGate {
			unix.Close(e.fd)
		}
		e.file.Close()
	}
}
