package gloo

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

const (
	introduceTime = 5 * time.Second // for the bytes that introduce a connection
	maxStrangers  = 256             // connections at a time that have not introduced themselves
)

// acceptor takes connections of the new dialect until every peer has one.
type acceptor struct {
	l      net.Listener
	rank   int
	secure func(ctx context.Context, conn net.Conn) (net.Conn, error)
	log    func(msg string, args ...any)
	all    sync.WaitGroup
	turns  chan struct{}
	ctx    context.Context
	cancel context.CancelFunc

	mu     sync.Mutex
	came   []net.Conn // by peer, that nothing has taken
	seen   []bool     // by peer
	arrive chan struct{}
	wake   func() // of the mesh, once there is one
}

func newAcceptor(l net.Listener, f *forming) *acceptor {
	a := &acceptor{l: l, rank: f.Rank, came: make([]net.Conn, f.Size), seen: make([]bool, f.Size), arrive: make(chan struct{}),
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

// admit reads the introduction of a connection. Strangers are dropped.
func (a *acceptor) admit(conn net.Conn) {
	stop := context.AfterFunc(a.ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	conn.SetDeadline(time.Now().Add(introduceTime)) // a connection that takes none has failed already
	from := conn.RemoteAddr()
	peer, err := a.introduced(conn)
	secured := conn
	if err == nil {
		secured, err = a.secure(a.ctx, conn)
	}
	if err != nil {
		a.log("connection dropped", "from", from, "err", err)
		conn.Close()
		return
	}
	secured.SetDeadline(time.Time{})
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ctx.Err() != nil || a.came[peer] != nil || a.seen[peer] {
		secured.Close()
		return
	}
	a.came[peer], a.seen[peer] = secured, true
	close(a.arrive)
	a.arrive = make(chan struct{})
	if a.wake != nil {
		a.wake()
	}
}

var errStranger = errors.New("not the number of a peer")

// introduced reads which peer a connection is from.
func (a *acceptor) introduced(conn net.Conn) (int, error) {
	var b [8]byte
	if _, err := io.ReadFull(conn, b[:]); err != nil {
		return 0, err
	}
	return a.peerOf(b[:])
}

// peerOf reads the number by which a peer introduces itself: its rank, as this rank has published.
func (a *acceptor) peerOf(b []byte) (int, error) {
	id := le.Uint64(b)
	if id >= uint64(len(a.came)) || int(id) == a.rank {
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
			return nil, errors.Join(errNotDialled, context.Cause(ctx))
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
