package gloo

import (
	"fmt"
	"io"

	"github.com/colligo-go/colligo/transport"
	"github.com/colligo-go/colligo/transport/internal/peermem"
	"github.com/colligo-go/colligo/transport/internal/stream"
)

const (
	bufSize   = 256 << 10 // of a pair, for heads and for payloads that are reduced
	readAhead = 4 << 10   // bytes read at once where heads are expected
	align     = 64        // of the payload in the buffer
)

// pair is the connection to one peer and what is pending there.
type pair struct {
	mesh   *Mesh
	peer   int
	stream stream.Stream // nil until the peer is connected

	slots   map[uint64]*slotState
	spare   []*slotState
	pending int // announcements of the peer that nothing has taken

	out     []byte // heads to be written
	writing *Send  // whose payload is being written
	later   []byte // heads that wait for its end
	partial int    // bytes written of what Write was given

	buf     []byte
	r, w    int      // buf[r:w] has come and is not used
	reading *Receive // whose payload is next in the stream
	looked  bool     // for it, since the last Relieve
	landed  int      // bytes that are in the destination of Body
	ended   error    // of the stream
	vec     [2][]byte

	memory     *peermem.Memory // of a peer of this package, nil where this rank cannot read it
	second     *peermem.Memory // the same, for a second goroutine
	ours       bool            // the peer is of this package, and may say so
	reads      bool            // the peer can read this rank's memory
	zeroCopies []*Send         // whose payloads the peer reads

	remotes []*Receive // whose payloads lie in the peer's memory
	part    []byte     // of one that is reduced
}

func newPair(m *Mesh, peer int) *pair {
	return &pair{mesh: m, peer: peer, slots: map[uint64]*slotState{}}
}

// queue puts a head into the queue. None may stand within a payload, which is written in several pieces where the peer takes it slowly.
func (p *pair) queue(h head) {
	if p.writing != nil {
		p.later = h.append(p.later)
	} else {
		p.out = h.append(p.out)
	}
}

// push writes the queue and then b, as far as the stream takes them. It returns the bytes of b that were taken.
func (p *pair) push(b []byte) (int, error) {
	if p.stream == nil || len(p.out)+len(b) == 0 {
		return 0, nil
	}
	p.vec = [2][]byte{p.out, b}
	bufs := p.vec[:]
	if len(p.out) == 0 {
		bufs = bufs[1:]
	} else if len(b) == 0 {
		bufs = bufs[:1]
	}
	n, err := p.stream.Write(bufs)
	p.vec = [2][]byte{}
	if err != nil {
		return 0, p.lost(err)
	}
	heads := min(n, len(p.out))
	p.out = p.out[:copy(p.out, p.out[heads:])]
	return n - heads, nil
}

// flush writes the queue, unless a payload is being written.
func (p *pair) flush() error {
	if p.writing != nil || len(p.out) == 0 {
		return nil
	}
	_, err := p.push(nil)
	return err
}

// read fills buffers with what is there.
func (p *pair) read(bufs [][]byte) (int, error) {
	if p.stream == nil {
		return 0, nil
	}
	if p.ended != nil {
		return 0, p.lost(p.ended)
	}
	n, err := p.stream.Read(bufs)
	if err != nil {
		p.ended = err
		return 0, p.lost(err)
	}
	return n, nil
}

// lost words the end of a stream.
func (p *pair) lost(err error) error {
	if err == io.EOF {
		return fmt.Errorf("%w: the connection was closed by the peer", transport.ErrLost)
	}
	return fmt.Errorf("%w: %w", transport.ErrLost, err)
}

// pull takes messages in until a payload is next or nothing has come, and writes what is queued.
func (p *pair) pull() error {
	if err := p.takeAll(); err != nil {
		return err
	}
	return p.flush()
}

// takeAll takes messages in until a payload is next or nothing has come.
func (p *pair) takeAll() error {
	for p.reading == nil {
		if p.w-p.r < headSize {
			before := p.w - p.r
			if err := p.fill(headSize); err != nil {
				return err
			}
			if p.w-p.r == before {
				break
			}
			continue
		}
		if err := p.take(); err != nil {
			return err
		}
	}
	return nil
}

// take takes one message off the buffer.
func (p *pair) take() error {
	h, err := decodeHead(p.buf[p.r : p.r+headSize])
	if err != nil {
		return err
	}
	p.r += headSize
	switch h.op {
	case opNoticeSend:
		return p.announced(h)
	case opNoticeRecv:
		return p.asked(h)
	case opReads, opTaken:
		return p.said(h)
	}
	s := p.slots[h.slot]
	if s == nil || len(s.posted) == 0 {
		return fmt.Errorf("%w: %d bytes on slot %#x, on which nothing is received", ErrProtocol, h.n, h.slot)
	}
	r := s.posted[0]
	if s.noticed == 0 {
		return fmt.Errorf("%w: %d bytes on slot %#x that were not announced", ErrProtocol, h.n, h.slot)
	}
	if err := r.fits(h.n); err != nil {
		return err
	}
	s.posted = shift(s.posted)
	s.noticed--
	p.settle(h.slot, s)
	if h.op == opRemote {
		return p.takeRemote(r, addressIn(p.buf[p.r-headSize:]))
	}
	p.reading, p.looked = r, false
	return nil
}

// fill reads what has come into the buffer, where at least so many bytes are wanted. Unused bytes move to its begin.
func (p *pair) fill(want int) error {
	if p.buf == nil {
		p.buf = make([]byte, bufSize)
	}
	p.w = copy(p.buf, p.buf[p.r:p.w])
	p.r = 0
	limit := readAhead
	if want > headSize {
		limit = len(p.buf)
	}
	n, err := p.read([][]byte{p.buf[p.w:max(limit, p.w)]})
	p.w += n
	return err
}
