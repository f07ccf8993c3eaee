package gloo

import (
	"io"
	"time"

	"github.com/colligo-go/colligo/transport"
)

// closeLimit is how long Close waits for the peers' kernels to have what was sent.
const closeLimit = time.Second

// Close ends every connection after what was written to it. It waits a second at most for the peers' kernels to have that. A
// second call does nothing.
func (m *Mesh) Close() error {
	m.end(true)
	return nil
}

// Abort ends every connection at once, so that the peers' operations end too. Nothing can be sent or received any more.
func (m *Mesh) Abort() { m.end(false) }

func (m *Mesh) end(flush bool) {
	m.Withdraw()
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return
	}
	m.closed = true
	flush = flush && m.err == nil
	if m.err == nil {
		m.err = transport.ErrClosed
	}
	m.mu.Unlock()
	m.w.Wake()
	m.waiting.Lock()
	defer m.waiting.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.accept != nil {
		m.accept.close()
	}
	if flush {
		m.flush()
	}
	for _, p := range m.pairs {
		if p != nil && p.stream != nil {
			p.stream.Close()
		}
	}
	if !m.beside {
		m.w.Close()
	}
}

// flush writes what is queued, ends the directions to the peers, and waits until their kernels have it all. Bytes that the
// peers have sent are read and dropped: a socket that is closed over them would take back what was sent.
func (m *Mesh) flush() {
	until := time.Now().Add(closeLimit)
	sink := [][]byte{make([]byte, 64<<10)}
	finished := make([]bool, m.size)
	for pause := 50 * time.Microsecond; time.Now().Before(until); pause = min(2*pause, 10*time.Millisecond) {
		pending := false
		for _, p := range m.pairs {
			if p != nil && p.stream != nil {
				finished[p.peer] = p.finish(finished[p.peer])
				pending = !drained(p, sink) || pending
			}
		}
		if !pending {
			return
		}
		time.Sleep(pause)
	}
}

// finish ends the direction to the peer when the queue is empty, unless it has ended. It reports whether it has.
func (p *pair) finish(finished bool) bool {
	if finished {
		return true
	}
	if err := p.flush(); err == nil && len(p.out) > 0 {
		return false
	}
	p.stream.Finish()
	return true
}

// drained drops what has come, and reports whether nothing is left to be sent.
func drained(p *pair, sink [][]byte) bool {
	for range 64 {
		n, err := p.stream.Read(sink)
		if err != nil && err != io.EOF {
			return true
		}
		if n == 0 {
			break
		}
	}
	return len(p.out) == 0 && p.stream.Flushed()
}
