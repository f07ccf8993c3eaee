package shm

import (
	"crypto/rand"
	"net"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

const tokenBytes = 16

// token is what a process has in its memory, so that a peer can tell that it reads the right one.
type token [tokenBytes]byte

// ownToken is this process's, for all of its meshes.
var ownToken = sync.OnceValue(newToken)

func newToken() *token {
	t := new(token)
	rand.Read(t[:]) // never fails
	return t
}

// peerMemory reads a peer's memory. With every read it reads the token after it. So what it has read is of the peer, though the system
// may give a dead process's number to another.
type peerMemory struct {
	pid    int
	want   token
	got    token
	local  [2]unix.Iovec
	remote [2]unix.RemoteIovec
}

// addressOf is where bytes lie, as it goes to a peer. The caller keeps them there.
func addressOf(p []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(p)))) }

// openPeerMemory returns the memory of a process with a token at an address, nil if this process may not read it.
func openPeerMemory(pid int, want token, at uint64) *peerMemory {
	if pid <= 0 { // of another namespace of processes
		return nil
	}
	m := &peerMemory{pid: pid, want: want}
	m.local[1] = unix.Iovec{Base: &m.got[0], Len: tokenBytes}
	m.remote[1] = unix.RemoteIovec{Base: uintptr(at), Len: tokenBytes}
	if !m.known(at) {
		return nil
	}
	return m
}

// processes has the identity of each process whose memory this one has read, by the process's number. Only the first link with a process
// reads there to find out. A link whose reads fail later goes on with copies, see zerocopy_linux.go.
var processes sync.Map

// identity tells a process from another one that had its number before.
type identity struct {
	token token
	at    uint64 // address of the token
}

// known reports whether this process can read its token at an address of the peer, or has read it there before.
func (m *peerMemory) known(at uint64) bool {
	id := identity{m.want, at}
	if before, ok := processes.Load(m.pid); ok && before == id {
		return true
	}
	var probe token
	if !m.read(probe[:], at) || probe != m.want {
		return false
	}
	processes.Store(m.pid, id)
	return true
}

// read fills dst with what is at an address of the peer. It reports false if not all of it could be read. The runtime does not hear of the
// system call, for it would give this goroutine's processor away. The call lasts no longer than the copy of a slot.
func (m *peerMemory) read(dst []byte, at uint64) bool {
	m.local[0].Base = unsafe.SliceData(dst)
	m.local[0].SetLen(len(dst))
	m.remote[0] = unix.RemoteIovec{Base: uintptr(at), Len: len(dst)}
	m.got = token{}
	n, _, errno := unix.RawSyscall6(unix.SYS_PROCESS_VM_READV, uintptr(m.pid), uintptr(unsafe.Pointer(&m.local)), uintptr(len(m.local)),
		uintptr(unsafe.Pointer(&m.remote)), uintptr(len(m.remote)), 0)
	m.local[0].Base = nil
	return errno == 0 && int(n) == len(dst)+tokenBytes && m.got == m.want
}

// processOf returns the process that holds the other end of a connection, 0 if it cannot be told.
func processOf(conn *net.UnixConn) int {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0
	}
	var peer *unix.Ucred
	failed := raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if failed != nil || err != nil {
		return 0
	}
	return int(peer.Pid)
}
