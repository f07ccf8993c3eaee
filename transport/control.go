package transport

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// A frame of the control channel is a kind (1 byte), a length (4 bytes, little-endian) and so many bytes.
const (
	frameNote    = 1
	frameGoodbye = 2
	frameGaveUp  = 3 // in place of goodbye from a mesh that did not form; the bytes say why
	frameHead    = 5
)

const (
	noteCost     = 64          // bytes counted for a note besides its own
	bytesQueued  = 8 * MaxNote // bytes that wait for one peer at most
	goodbyeLimit = time.Second // how long Close waits for peers to hear the goodbye
	maxReason    = 2 << 10     // bytes of why a mesh did not form; what is longer is cut
)

// The peer's kernel is asked for a sign of life. So a host that vanished without a word is found after about half a minute.
// With a note to it on its way, it is found only when the kernel gives up sending the note again. A stopped process is not
// taken for dead: its kernel answers. TCP_USER_TIMEOUT is left alone because it also ends connections whose peer lives but
// does not read.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}

// Control is the control channel of a mesh, for notes, for goodbye, and to learn of a peer's death. It is one connection to
// each peer, past all lanes. It has one goroutine per peer, and a second while notes wait to be written.
//
//  1. Notify never waits for a peer. Notes that the peer does not read are queued up to a bound and then refused.
//  2. Each peer is reported lost once at most, with an error that wraps ErrLost, ErrCorrupt or ErrGoodbye. Its notes come
//     before that.
//  3. Err tells of a loss before Events.Lost is called.
//  4. Close ends all events: none begins after it, and once it has returned none runs.
type Control struct {
	c  *Config
	wg sync.WaitGroup

	mu     sync.Mutex
	peers  map[int]*controlPeer
	closed bool
}

type controlPeer struct {
	ctl  *Control
	rank int
	conn net.Conn

	// Guarded by Control.mu.
	err     error // why the peer is gone
	queue   [][]byte
	bytes   int
	writing bool  // a goroutine is writing the queue
	broken  error // why a write failed
}

// NewControl returns a control channel without peers. It uses c.Events.
func NewControl(c *Config) *Control {
	return &Control{c: c, peers: make(map[int]*controlPeer)}
}

// Add takes over a connection to a peer on which the handshake is done, and begins to read it. Events may come before
// Add returns.
func (t *Control) Add(peer int, conn net.Conn) {
	setKeepAlive(conn)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.peers[peer] != nil {
		panic(fmt.Sprintf("transport: second control connection of rank %d", peer))
	}
	if t.closed {
		conn.Close()
		return
	}
	p := &controlPeer{ctl: t, rank: peer, conn: conn}
	t.peers[peer] = p
	t.wg.Add(1)
	go p.read()
}

// setKeepAlive asks for probes where the connection is TCP; a kernel that refuses leaves its own default.
func setKeepAlive(conn net.Conn) {
	if tcp, ok := Under(conn).(*net.TCPConn); ok {
		_ = tcp.SetKeepAliveConfig(keepAlive)
	}
}

// Under returns the connection that TLS uses; conn itself if it is none of TLS. To close it is to close conn without the
// farewell of TLS, which would wait some seconds for a peer that does not read.
func Under(conn net.Conn) net.Conn {
	if w, ok := conn.(interface{ NetConn() net.Conn }); ok {
		return w.NetConn()
	}
	return conn
}

// Notify queues a note for a peer. It fails with a *PeerError if the peer is gone, has no connection or does not read.
func (t *Control) Notify(peer int, note []byte) error {
	if len(note) > MaxNote {
		return fmt.Errorf("transport: note of %d bytes to rank %d, the limit is %d", len(note), peer, MaxNote)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.peers[peer]
	switch {
	case t.closed:
		return &PeerError{peer, ErrClosed}
	case p == nil:
		return &PeerError{peer, errors.New("no control connection")}
	case p.err != nil:
		return &PeerError{peer, p.err}
	case p.bytes+len(note)+noteCost > bytesQueued:
		return &PeerError{peer, fmt.Errorf("does not read its control channel: %d notes of %d bytes wait", len(p.queue), p.bytes)}
	}
	p.enqueue(frameNote, note)
	return nil
}

// Err says why a peer is gone: nil while it is there, else an error that wraps ErrLost, ErrCorrupt or ErrGoodbye; ErrClosed
// after Close.
func (t *Control) Err(peer int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.peers[peer]; p != nil && p.err != nil {
		return p.err
	}
	if t.closed {
		return ErrClosed
	}
	return nil
}

// Close says goodbye to all peers after the notes that wait, gives them a second to hear it, and ends goroutines and
// connections. A peer that hears it closes its end, which is how Close knows.
func (t *Control) Close() error { return t.end(frameGoodbye, nil) }

// GiveUp closes the control channel of a mesh that did not form. The peers lose this rank with an error that wraps ErrLost
// and says why.
func (t *Control) GiveUp(why string) error { return t.end(frameGaveUp, reason(why)) }

func reason(why string) []byte { return []byte(why[:min(len(why), maxReason)]) }

// end says a last thing to all peers, and ends.
func (t *Control) end(kind byte, body []byte) error {
	t.mu.Lock()
	t.sayLast(kind, body)
	t.mu.Unlock()
	t.wg.Wait()
	return nil
}

// sayLast gives all peers a last thing to be told, unless there was one. The caller holds the lock.
func (t *Control) sayLast(kind byte, body []byte) {
	if t.closed {
		return
	}
	t.closed = true
	for _, p := range t.peers {
		if p.err != nil {
			continue
		}
		if p.writing { // a peer that takes nothing does not hold this rank
			p.limit()
		}
		p.enqueue(kind, body)
	}
}

// limit gives a peer a second from now to take what is written, and to close its end.
func (p *controlPeer) limit() {
	p.conn.SetDeadline(time.Now().Add(goodbyeLimit)) // a connection that takes none has failed already
}

// enqueue appends a frame and sees that somebody writes it. The caller holds the lock.
func (p *controlPeer) enqueue(kind byte, body []byte) {
	p.queue = append(p.queue, frame(kind, body))
	p.bytes += len(body) + noteCost
	if !p.writing {
		p.writing = true
		p.ctl.wg.Add(1)
		go p.write()
	}
}

func frame(kind byte, body []byte) []byte {
	b := make([]byte, frameHead, frameHead+len(body))
	b[0] = kind
	binary.LittleEndian.PutUint32(b[1:], uint32(len(body)))
	return append(b, body...)
}

// write writes the queue and ends when it is empty. A failure is left for the reader to find, which has its reason.
func (p *controlPeer) write() {
	defer p.ctl.wg.Done()
	for {
		p.ctl.mu.Lock()
		if len(p.queue) == 0 || p.err != nil {
			p.queue, p.bytes, p.writing = nil, 0, false
			p.ctl.mu.Unlock()
			return
		}
		b := p.queue[0]
		last := p.ctl.closed && len(p.queue) == 1
		p.ctl.mu.Unlock()
		if last { // from when it is written, for a busy machine may have held this goroutine up
			p.limit()
		}
		_, err := p.conn.Write(b)
		p.ctl.mu.Lock()
		p.queue, p.bytes = p.queue[1:], p.bytes-(len(b)-frameHead+noteCost)
		if err != nil {
			p.queue, p.bytes, p.broken = nil, 0, err
			if !p.ctl.closed { // else there is a limit
				p.conn.SetReadDeadline(time.Now().Add(goodbyeLimit)) // what the peer said before it went can still be read
			}
		}
		p.ctl.mu.Unlock()
	}
}

// read delivers notes until the peer is gone.
func (p *controlPeer) read() {
	defer p.ctl.wg.Done()
	r := bufio.NewReader(p.conn)
	for {
		note, err := readFrame(r)
		if err != nil {
			p.gone(err)
			return
		}
		p.ctl.mu.Lock()
		f := p.ctl.c.Events.Note
		if p.ctl.closed {
			f = nil
		}
		p.ctl.mu.Unlock()
		if f != nil {
			f(p.rank, note)
		}
	}
}

// gone records why the peer is gone, closes the connection and tells.
func (p *controlPeer) gone(err error) {
	p.ctl.mu.Lock()
	closed := p.ctl.closed
	if p.broken != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		err = lost(p.broken, 0)
	}
	if closed {
		err = ErrClosed
	}
	p.err = err
	p.ctl.mu.Unlock()
	Under(p.conn).Close()
	if f := p.ctl.c.Events.Lost; f != nil && !closed {
		f(p.rank, err)
	}
}

// readFrame returns the next note, or why none can come.
func readFrame(r io.Reader) ([]byte, error) {
	var head [frameHead]byte
	if n, err := io.ReadFull(r, head[:]); err != nil {
		return nil, lost(err, n)
	}
	size := binary.LittleEndian.Uint32(head[1:])
	switch {
	case head[0] == frameGoodbye && size == 0:
		return nil, ErrGoodbye
	case head[0] != frameNote && head[0] != frameGaveUp:
		return nil, fmt.Errorf("%w: control frame of kind %d", ErrCorrupt, head[0])
	case size > MaxNote:
		return nil, fmt.Errorf("%w: note of %d bytes, the limit is %d", ErrCorrupt, size, MaxNote)
	}
	note := make([]byte, size)
	if n, err := io.ReadFull(r, note); err != nil {
		return nil, lost(err, frameHead+n)
	}
	if head[0] == frameGaveUp {
		return nil, fmt.Errorf("%w: gave up: %s", ErrLost, reason(string(note)))
	}
	return note, nil
}

// lost says what the end of a control connection means, n bytes into a frame. The system resets the connection in place of ending it where
// the process had not read all that had come when it died.
func lost(err error, n int) error {
	ended := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) // the latter from TLS even at n = 0
	reset := errors.Is(err, syscall.ECONNRESET)
	how := "without goodbye"
	if n > 0 {
		how = fmt.Sprintf("%d bytes into a control frame", n)
	}
	switch {
	case ended:
		return fmt.Errorf("%w: connection closed %s: the process died", ErrLost, how)
	case reset:
		return fmt.Errorf("%w: connection closed %s: the process died (%w)", ErrLost, how, err)
	}
	return fmt.Errorf("%w: control connection: %w", ErrLost, err)
}
