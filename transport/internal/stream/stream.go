package stream

import (
	"net"
	"time"
)

// Stream is the bytes of one connection. Neither Read nor Write blocks.
type Stream interface {
	// Read fills the buffers in order with what is there; 0 without an error means nothing now, io.EOF that no more comes.
	Read(bufs [][]byte) (int, error)
	// Write takes what it can of the buffers in order; 0 without an error means nothing now.
	Write(bufs [][]byte) (int, error)
	// Finish ends this direction after what has been written.
	Finish()
	// Flushed says whether all written bytes have left, as far as this side can know.
	Flushed() bool
	Close()
}

// Waiter sleeps until a stream that refused may do more, Wake was called, or until has passed (zero: no limit).
type Waiter interface {
	// Add makes a stream of a connection and waits for it, too. The goroutine that calls Wait calls it.
	Add(conn net.Conn) (Stream, error)
	// SleepAtOnce is called before the first Wait if the caller never looks again before it sleeps. Then sleeping is made cheap.
	SleepAtOnce()
	Wait(until time.Time)
	// Ready says at once whether Wait would return at once, or that the streams have to be asked.
	Ready() bool
	Wake()
	// Close ends the waiting. Its streams stay open.
	Close()
}

// Open makes the streams of some connections, and what waits for them.
func Open(conns []net.Conn) ([]Stream, Waiter, error) {
	w, err := New(plain(conns))
	if err != nil {
		return nil, nil, err
	}
	streams := make([]Stream, len(conns))
	for i, conn := range conns {
		if streams[i], err = w.Add(conn); err != nil {
			for _, s := range streams[:i] {
				s.Close()
			}
			w.Close()
			return nil, nil, err
		}
	}
	return streams, w, nil
}

// plain reports whether all connections are sockets and nothing more.
func plain(conns []net.Conn) bool {
	for _, conn := range conns {
		if _, ok := conn.(*net.TCPConn); !ok {
			return false
		}
	}
	return true
}
