package tcp

import (
	"net"
	"sync"
	"time"

	"github.com/colligo-go/colligo/transport"
)

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

// pumps starts a pump for every connection, and returns the bell that they all ring.
func pumps(conns []net.Conn) ([]stream, waiter) {
	b := &bell{c: make(chan struct{}, 1)}
	streams := make([]stream, len(conns))
	for i, conn := range conns {
		p := &pump{conn: conn, bell: b}
		p.moved.L = &p.mu
		p.wg.Add(2)
		go p.pull()
		go p.push()
		streams[i] = p
	}
	return streams, b
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
		p.bell.wake()
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
		p.bell.wake()
	}
	if c, ok := p.conn.(interface{ CloseWrite() error }); ok && p.werr == nil {
		p.mu.Unlock()
		err := c.CloseWrite()
		p.mu.Lock()
		p.werr = err
	}
	p.idle = true
}

func (p *pump) read(bufs [][]byte) (total int, err error) {
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

func (p *pump) write(bufs [][]byte) (total int, err error) {
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

func (p *pump) finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.finishing {
		p.finishing = true
		p.conn.SetWriteDeadline(time.Now().Add(closeLimit)) // a connection that takes none has failed already
		p.moved.Broadcast()
	}
}

func (p *pump) flushed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.idle
}

func (p *pump) close() {
	p.mu.Lock()
	p.closed = true
	p.moved.Broadcast()
	p.mu.Unlock()
	transport.Under(p.conn).Close() // its errors have been those of read and write
	p.wg.Wait()
}

// bell is the waiter of pumps.
type bell struct{ c chan struct{} }

func (b *bell) wake() {
	select {
	case b.c <- struct{}{}:
	default:
	}
}

func (b *bell) wait(until time.Time) {
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

func (b *bell) close() {}
