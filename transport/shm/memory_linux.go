package shm

import (
	"crypto/rand"
	"net"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

const tokenBytes = 16

// token is what a rank has in its memory, so that a peer can tell that it reads the right process.
type token [tokenBytes]byte

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
	var probe token
	if !m.read(probe[:], at) || probe != want {
		return nil
	}
	return m
}

// read fills dst with what is at an address of the peer. It reports false if not all of it could be read.
func (m *peerMemory) read(dst []byte, at uint64) bool {
	m.local[0].Base = unsafe.SliceData(dst)
	m.local[0].SetLen(len(dst))
	m.remote[0] = unix.RemoteIovec{Base: uintptr(at), Len: len(dst)}
	m.got = token{}
	n, err := unix.ProcessVMReadv(m.pid, m.local[:], m.remote[:], 0)
	m.local[0].Base = nil
	return err == nil && n == len(dst)+tokenBytes && m.got == m.want
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

// ownProcess says whether the other end of a connection is held by this process.
func ownProcess(conn *net.UnixConn) bool { return processOf(conn) == os.Getpid() }
