package shm

import (
	"net"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/colligo-go/colligo/transport/internal/peermem"
)

// ownToken is this process's, for all of its meshes.
var ownToken = sync.OnceValue(peermem.NewToken)

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
