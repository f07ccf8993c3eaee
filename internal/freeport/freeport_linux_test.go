package freeport

import (
	"net"
	"testing"
)

// TestLeftAlone has others look for ports from the same place on while a test has one. None of them listens there to try it.
func TestLeftAlone(t *testing.T) {
	const host = "127.0.0.1"
	from := next.Load()
	address := Address(t, host)
	over := make(chan struct{})
	go func() {
		defer close(over)
		for range 50 {
			next.Store(from)
			Port(t, host)
		}
	}()
	for others := true; others; {
		select {
		case <-over:
			others = false
		default:
		}
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
	}
}
