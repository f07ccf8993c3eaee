package stream

import (
	"net"
	"sync"
	"time"

	"github.com/colligo-go/colligo/transport"
)

// writeLimit is how long the last bytes of a stream may take to leave.
const writeLimit = time.Second

// pump is a stream over any connection: a goroutine reads from it into a ring, another writes to it from a ring.
type pump struct {
	conn net.Conn
	bell *bell
	wg   sync.WaitGroup

	mu         sync.Mutex
	moved      sync.Cond // something below has changed
	in, out    ring
	rerr, werr error
	finishing  bool
	idle       bool // the writing goroutine has ended
	closed     bool
}

// Add implements Waiter: it starts a pump.
func (b *bell) Add(conn net.Conn) (Stream, error) {
	p := &pump{conn: conn, bell: b}
	p.moved.L = &p.mu
	p.wg.Add(2)
	go p.pull()
	go p.push()
	return p, nil
}

// pull fills the inner ring until the connection ends.
func (p *pump) pull() {
	defer p.wg.Done()
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.rerr == nil {
		space := p.in.space()
		if p.closed {
			return
		}
		if len(space) == 0 {
			p.moved.Wait()
			continue
		}
		p.mu.Unlock()
		n, err := p.conn.Read(space)
		p.mu.Lock()
		p.in.added(n)
		p.rerr = err
		p.bell.Wake()
	}
}

// push empties the outer ring until it has failed, or has finished what there was.
func (p *pump) push() {
	defer p.wg.Done()
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.werr == nil && !p.closed {
		if p.out.len == 0 {
			if p.finishing {
				break
			}
			p.moved.Wait()
			continue
		}
		b := p.out.queued()
		p.mu.Unlock()
		n, err := p.conn.Write(b)
		p.mu.Lock()
		p.out.taken(n)
		p.werr = err
		p.bell.Wake()
	}
	if c, ok := p.conn.(interface{ CloseWrite() error }); ok && p.werr == nil {
		p.mu.Unlock()
		err := c.CloseWrite()
		p.mu.Lock()
		p.werr = err
	}
	p.idle = true
}

// Read implements Stream.
func (p *pump) Read(bufs [][]byte) (total int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, b := range bufs {
		n := p.in.take(b)
		if total += n; n < len(b) {
			break
		}
	}
	if total == 0 {
		return 0, p.rerr
	}
	p.moved.Broadcast()
	return total, nil
}

// Write implements Stream.
func (p *pump) Write(bufs [][]byte) (total int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.werr != nil {
		return 0, p.werr
	}
	for _, b := range bufs {
		n := p.out.put(b)
		if total += n; n < len(b) {
			break
		}
	}
	if total > 0 {
		p.moved.Broadcast()
	}
	return total, nil
}

// Finish implements Stream.
func (p *pump) Finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.finishing {
		p.finishing = true
		p.conn.SetWriteDeadline(time.Now().Add(writeLimit)) // a connection that takes none has failed already
		p.moved.Broadcast()
	}
}

// Flushed implements Stream.
func (p *pump) Flushed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.idle
}

// Close implements Stream.
func (p *pump) Close() {
	p.mu.Lock()
	p.closed = true
	p.moved.Broadcast()
	p.mu.Unlock()
	transport.Under(p.conn).Close() // its errors have been those of read and write
	p.wg.Wait()
}

// bell is the waiter of pumps.
type bell struct{ c chan struct{} }

func newBell() *bell { return &bell{c: make(chan struct{}, 1)} }

// Wake implements Waiter.
func (b *bell) Wake() {
	select {
	case b.c <- struct{}{}:
	default:
	}
}

// SleepAtOnce implements Waiter.
func (b *bell) SleepAtOnce() {}

// Wait implements Waiter.
func (b *bell) Wait(until time.Time) {
	if until.IsZero() {
		<-b.c
		return
	}
	t := time.NewTimer(time.Until(until))
	defer t.Stop()
	select {
	case <-b.c:
	case <-t.C:
	}
}

// Ready implements Waiter: it cannot tell.
func (b *bell) Ready() bool { return true }

// Close implements Waiter.
func (b *bell) Close() {}
