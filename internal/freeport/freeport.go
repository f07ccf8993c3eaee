// Package freeport chooses the ports at which the processes of tests meet.
//
// Invariants:
//
//  1. A port lies below those that the system hands out by itself. So no socket that asks for any port can take it between its choice
//     and its use.
//  2. On Linux, no other test has the port until the test ends that has chosen it.
package freeport

import (
	"net"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// next counts the ports that were chosen. Tests that run beside this one begin at different places.
var next atomic.Int64

// tryPidfd has the runtime find out now whether Linux has file descriptors of processes. The runtime would do so when this process first
// starts another, and without syscall.ForkLock: its trial process could keep a port that free tries.
var tryPidfd = sync.OnceFunc(func() {
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		p.Release()
	}
})

// Address returns an address of this host with a port that nobody listens at.
func Address(t testing.TB, host string) string {
	t.Helper()
	return net.JoinHostPort(host, Port(t, host))
}

// Port returns a port that nobody listens at, on one address of this host or on all. It is the test's until its end.
func Port(t testing.TB, host string) string {
	t.Helper()
	const first, ports = 20_000, 12_000
	tryPidfd()
	for range ports {
		port := strconv.FormatInt(first+(int64(os.Getpid())*64+next.Add(1))%ports, 10)
		if reserve(t, port) && free(host, port) && free("", port) { // a port that another test has is not even tried
			return port
		}
	}
	t.Fatalf("no free port of %s between %d and %d", host, first, first+ports)
	return ""
}

// free reports whether nobody listens at a port. Meanwhile this process starts no other: until it runs its program, the new process would keep
// the port as well.
func free(host, port string) bool {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	l, err := net.Listen("tcp", net.JoinHostPort(host, port))
	return err == nil && l.Close() == nil
}

// reserve takes a port for a test, among the tests of all processes. A name of Linux's abstract sockets stands for it, which goes with
// its process.
func reserve(t testing.TB, port string) bool {
	if runtime.GOOS != "linux" {
		return true
	}
	l, err := net.Listen("unix", "@colligo-test-port-"+port)
	if err == nil {
		t.Cleanup(func() { l.Close() })
	}
	return err == nil
}
