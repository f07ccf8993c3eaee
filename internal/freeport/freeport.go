// Package freeport chooses the ports at which the processes of tests meet.
//
// Invariant: a port lies below those that the system hands out by itself. So no other socket can take it between its choice and
// its use.
package freeport

import (
	"net"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
)

// next counts the ports that were chosen. Tests that run beside this one begin at different places.
var next atomic.Int64

// Address returns an address of this host with a port that nobody listens at.
func Address(t testing.TB, host string) string {
	t.Helper()
	return net.JoinHostPort(host, Port(t, host))
}

// Port returns a port of this host that nobody listens at.
func Port(t testing.TB, host string) string {
	t.Helper()
	const first, ports = 20_000, 12_000
	for range ports {
		port := strconv.FormatInt(first+(int64(os.Getpid())*64+next.Add(1))%ports, 10)
		if l, err := net.Listen("tcp", net.JoinHostPort(host, port)); err == nil {
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			return port
		}
	}
	t.Fatalf("no free port of %s between %d and %d", host, first, first+ports)
	return ""
}
