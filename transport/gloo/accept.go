package gloo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

const (
	introduceTime = 5 * time.Second // for the bytes that introduce a connection
	maxStrangers  = 256             // connections at a time that have not introduced themselves
)

// acceptor takes connections at one listener until each of its peers has one: all peers in the new dialect, one peer in the old.
// Strangers' connections are dropped, and the next are taken.
type acceptor struct {
	l        net.Listener
	identify func(net.Conn) (peer int, err error)
	secure   func(ctx context.Context, conn net.Conn) (net.Conn, error)
	log      func(msg string, args ...any)
	all      sync.WaitGroup
	turns    chan struct{}
	ctx      context.Context
	cancel   context.CancelFunc

	mu      sync.Mutex
	came    []net.Conn // by peer, that nothing has taken
	seen    []bool     // by peer
	dropped error      // why the last stranger was
	arrive  chan struct{}
	wake    func() // of the mesh, once there is one
}

// newAcceptor takes connections of so many peers. The function identifies the peer that a connection is from.
func (f *forming) newAcceptor(l net.Listener, peers int, identify func(net.Conn) (int, error)) *acceptor {
	a := &acceptor{l: l, identify: identify, came: make([]net.Conn, peers), seen: make([]bool, peers), arrive: make(chan struct{}),
		turns: make(chan struct{}, maxStrangers), log: f.log.Warn}
	a.ctx, a.cancel = context.WithCancel(context.Background())
	a.secure = f.admission()
	a.all.Go(a.run)
	return a
}

func (a *acceptor) run() {
	for {
		conn, err := a.l.Accept()
		switch {
		case err == nil:
			a.turns <- struct{}{}
			a.all.Go(func() {
				defer func() { <-a.turns }()
				a.admit(conn)
			})
		case errors.Is(err, net.ErrClosed):
			return
		default: // out of descriptors, as a rule; some may come back
			a.log("accept", "err", err)
			time.Sleep(50 * time.Millisecond)
		}
	}
}

// admit keeps a connection for the peer that it is from. Strangers are dropped.
func (a *acceptor) admit(conn net.Conn) {
	stop := context.AfterFunc(a.ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	conn.SetDeadline(time.Now().Add(introduceTime)) // a connection that takes none has failed already
	from := conn.RemoteAddr()
	peer, err := a.identify(conn)
	secured := conn
	if err == nil {
		secured, err = a.secure(a.ctx, conn)
	}
	over := !stop() // from here on the acceptor's end sets no deadline of the connection
	if err == nil {
		err = secured.SetDeadline(time.Time{})
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil && a.seen[peer] {
		err = errTwice
	}
	if over = over || a.ctx.Err() != nil; err != nil || over {
		if err != nil && !(over && errors.Is(err, os.ErrDeadlineExceeded)) { // else nothing is known of it
			a.dropped = fmt.Errorf("a connection from %v was dropped: %w", from, err)
			a.log("connection dropped", "from", from, "err", err)
		}
		conn.Close()
		return
	}
	a.came[peer], a.seen[peer] = secured, true
	close(a.arrive)
	a.arrive = make(chan struct{})
	if a.wake != nil {
		a.wake()
	}
}

var (
	errStranger = errors.New("not the number of a peer")
	errTwice    = errors.New("the peer has a connection")
)

// introduced reads which peer a connection is from.
func (f *forming) introduced(conn net.Conn) (int, error) {
	var b [8]byte
	if _, err := io.ReadFull(conn, b[:]); err != nil {
		return 0, err
	}
	return peerOf(b[:], f.Rank, f.Size)
}

// peerOf reads the number by which a peer introduces itself: its rank, as this rank has published.
func peerOf(b []byte, rank, size int) (int, error) {
	id := le.Uint64(b)
	if id >= uint64(size) || int(id) == rank {
		return 0, errStranger
	}
	return int(id), nil
}

// wait returns a peer's connection when it is there. Of a lazy peer it returns nil if it has not come.
func (a *acceptor) wait(ctx context.Context, peer int, lazy bool) (net.Conn, error) {
	for {
		a.mu.Lock()
		conn, arrive := a.came[peer], a.arrive
		a.came[peer] = nil
		a.mu.Unlock()
		if conn != nil || lazy {
			return conn, nil
		}
		select {
		case <-arrive:
		case <-ctx.Done():
			a.mu.Lock()
			defer a.mu.Unlock()
			return nil, errors.Join(errNotDialled, a.dropped, context.Cause(ctx))
		}
	}
}

var errNotDialled = errors.New("it has not connected")

// notify has the mesh woken for every connection that comes.
func (a *acceptor) notify(wake func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wake = wake
	wake()
}

// take returns the connections that have come, by peer, nil if none have.
func (a *acceptor) take() map[int]net.Conn {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all map[int]net.Conn
	for peer, conn := range a.came {
		if conn == nil {
			continue
		}
		if all == nil {
			all = map[int]net.Conn{}
		}
		all[peer], a.came[peer] = conn, nil
	}
	return all
}

// close ends the listener, and connections that nothing has taken.
func (a *acceptor) close() {
	a.cancel()
	a.l.Close()
	a.all.Wait()
	for _, conn := range a.take() {
		conn.Close()
	}
}
