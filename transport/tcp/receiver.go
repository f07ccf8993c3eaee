package tcp

import (
	"encoding/binary"
	"fmt"

	"github.com/colligo-go/colligo/transport"
	"github.com/colligo-go/colligo/transport/internal/stream"
)

const (
	readAhead = 64 << 10 // bytes read at once while frames are small
	sumSize   = 4
	align     = 8 // of a payload in the lane's buffer
)

// receiver is the receiving half of a lane. Bytes come from the stream into buf, except that a plain payload with a
// destination goes there. While frames are small one read takes as many as have come. After a large one it takes no more
// than the next header beyond the frame. So the next payload can go where it belongs.
type receiver struct {
	s     stream.Stream
	codec codec
	lane  int
	frame int // the largest payload allowed

	buf  []byte
	r, w int   // buf[r:w] has come and is not yet used
	err  error // ErrCorrupt: nothing that follows can be read
	came bool  // bytes have come; the link takes it back

	h     transport.Header
	have  bool   // h is a frame that is not released
	large bool   // the last header was of a large frame
	got   int    // bytes of the payload that are in the destination
	skip  bool   // the frame was released before it had come
	done  bool   // out is the whole payload
	out   []byte // points into buf, plain or the destination
	plain []byte // memory for expanded payloads
	vec   [2][]byte
}

// head returns the next header, nil if it has not come; an error means that it will not come.
func (r *receiver) head() (*transport.Header, error) {
	if r.skip {
		if _, done, err := r.body(nil); !done {
			return nil, err
		}
		r.drop()
	}
	if r.have {
		return &r.h, nil
	}
	if r.err != nil {
		return nil, r.err
	}
	if ok, err := r.need(transport.HeaderSize, 0); !ok {
		return nil, err
	}
	if r.err = r.decode(); r.err != nil {
		return nil, r.err
	}
	r.have, r.done, r.got, r.out = true, r.h.Len == 0, 0, nil
	return &r.h, nil
}

// decode takes a header off the buffer and checks what only this lane can know.
func (r *receiver) decode() error {
	if err := r.h.Decode((*[transport.HeaderSize]byte)(r.buf[r.r:])); err != nil {
		return err
	}
	r.r += transport.HeaderSize
	r.large = r.h.Len > readAhead/4
	switch {
	case int(r.h.Lane) != r.lane:
		return fmt.Errorf("%w: frame of lane %d on lane %d", transport.ErrCorrupt, r.h.Lane, r.lane)
	case int(r.h.Len) > r.frame:
		return fmt.Errorf("%w: payload of %d bytes, the limit of this group is %d", transport.ErrCorrupt, r.h.Len, r.frame)
	case r.h.Flags&^(transport.FlagCompressed|transport.FlagChecksum) != 0:
		return fmt.Errorf("%w: flags %#x", transport.ErrCorrupt, r.h.Flags)
	case r.h.Flags&transport.FlagCompressed != 0 && r.codec == nil:
		return fmt.Errorf("%w: compressed payload in a group without compression", transport.ErrCorrupt)
	}
	return nil
}

// body returns the payload, and whether it has come whole.
func (r *receiver) body(dst []byte) ([]byte, bool, error) {
	switch {
	case !r.have && !r.skip:
		panic(fmt.Sprintf("tcp: body on lane %d without a frame", r.lane))
	case r.err != nil:
		return nil, false, r.err
	case dst != nil && len(dst) != int(r.h.Len):
		panic(fmt.Sprintf("tcp: destination of %d bytes for a payload of %d", len(dst), r.h.Len))
	case r.done && r.out == nil:
		r.out = dst[:0]
	}
	if r.done {
		return r.out, true, nil
	}
	var ok bool
	var err error
	switch {
	case r.h.Flags&transport.FlagCompressed != 0:
		ok, err = r.expand(dst)
	case dst != nil && !r.skip:
		ok, err = r.into(dst)
	default:
		ok, err = r.inside()
	}
	r.done = ok
	if !ok {
		return nil, false, err
	}
	return r.out, true, nil
}

// into receives a plain payload in dst.
func (r *receiver) into(dst []byte) (bool, error) {
	if n := copy(dst[r.got:], r.buf[r.r:r.w]); n > 0 {
		r.got, r.r = r.got+n, r.r+n
	}
	for r.got < len(dst) { // then the buffer is empty
		r.r, r.w = 0, 0
		r.vec = [2][]byte{dst[r.got:], r.buf[:transport.HeaderSize+r.sum()]}
		n, err := r.read(r.vec[:])
		if n == 0 {
			return false, err
		}
		r.w = max(0, n-(len(dst)-r.got))
		r.got += n - r.w
	}
	if ok, err := r.need(r.sum(), 0); !ok {
		return false, err
	}
	r.out = dst
	return r.verify(dst, r.buf[r.r:])
}

// inside receives a plain payload in the buffer. Bytes of a skipped frame that went to a destination are not verified.
func (r *receiver) inside() (bool, error) {
	n := int(r.h.Len) - r.got
	if ok, err := r.need(n+r.sum(), transport.HeaderSize); !ok {
		return false, err
	}
	if r.got > 0 {
		return true, nil
	}
	// An odd payload before this one may have left it at an odd place; what lies before it has been used.
	odd := r.r % align
	r.out = r.buf[r.r-odd : r.r-odd+n]
	if odd > 0 {
		copy(r.out, r.buf[r.r:r.r+n])
	}
	return r.verify(r.out, r.buf[r.r+n:])
}

// expand receives a compressed payload in the buffer and expands it into dst, or into memory of the lane.
func (r *receiver) expand(dst []byte) (bool, error) {
	if ok, err := r.need(4, 0); !ok {
		return false, err
	}
	n := int(binary.LittleEndian.Uint32(r.buf[r.r:]))
	if n == 0 || n >= int(r.h.Len) {
		return false, r.corrupt(fmt.Errorf("%d compressed bytes for a payload of %d", n, r.h.Len))
	}
	if ok, err := r.need(4+n+r.sum(), transport.HeaderSize); !ok {
		return false, err
	}
	wire := r.buf[r.r : r.r+4+n]
	if ok, err := r.verify(wire, r.buf[r.r+4+n:]); !ok {
		return false, err
	}
	if dst == nil {
		if cap(r.plain) < int(r.h.Len) {
			r.plain = make([]byte, r.h.Len)
		}
		dst = r.plain[:r.h.Len]
	}
	if err := r.codec.decode(dst, wire[4:]); err != nil {
		return false, r.corrupt(err)
	}
	r.out = dst
	return true, nil
}

// sum is the bytes of checksum after the payload.
func (r *receiver) sum() int {
	if r.h.Flags&transport.FlagChecksum != 0 {
		return sumSize
	}
	return 0
}

// verify compares the bytes of a payload with the checksum that came after them.
func (r *receiver) verify(wire, after []byte) (bool, error) {
	if r.sum() == 0 {
		return true, nil
	}
	if got, want := binary.LittleEndian.Uint32(after), transport.Checksum(wire); got != want {
		return false, r.corrupt(fmt.Errorf("payload checksum %#08x, computed %#08x", got, want))
	}
	return true, nil
}

func (r *receiver) corrupt(err error) error {
	r.err = fmt.Errorf("%w: lane %d: %w", transport.ErrCorrupt, r.lane, err)
	return r.err
}

// release gives up the frame; if it has not come whole, what follows of it is dropped as it comes.
func (r *receiver) release() {
	if !r.have {
		panic(fmt.Sprintf("tcp: release on lane %d without a frame", r.lane))
	}
	if !r.done {
		r.skip, r.have = true, false
		return
	}
	r.drop()
}

// drop takes a frame that has come whole off the buffer.
func (r *receiver) drop() {
	switch {
	case r.h.Len == 0:
	case r.h.Flags&transport.FlagCompressed != 0:
		r.r += 4 + int(binary.LittleEndian.Uint32(r.buf[r.r:])) + r.sum()
	default:
		r.r += int(r.h.Len) - r.got + r.sum()
	}
	r.have, r.skip, r.out = false, false, nil
}

// need reads until n bytes lie together in the buffer at r.r, and says whether they do. It reads on until the stream has
// nothing more, so that the waiter's next report is of something new. After a large frame it reads ahead no more than
// the given bytes beyond n.
func (r *receiver) need(n, ahead int) (bool, error) {
	for r.w-r.r < n {
		r.makeRoom(n + ahead)
		end := r.r + n + ahead
		if !r.large {
			end = min(len(r.buf), max(end, r.w+readAhead))
		}
		r.vec[0] = r.buf[r.w:end]
		got, err := r.read(r.vec[:1])
		if got == 0 {
			return false, err
		}
		r.w += got
	}
	return true, nil
}

func (r *receiver) read(bufs [][]byte) (int, error) {
	n, err := r.s.Read(bufs)
	r.came = r.came || n > 0
	return n, err
}

// makeRoom makes the buffer reach n bytes beyond r.r.
func (r *receiver) makeRoom(n int) {
	if r.r == r.w {
		r.r, r.w = 0, 0
	}
	if r.r+n <= len(r.buf) {
		return
	}
	if n <= len(r.buf) {
		r.moveDown()
		return
	}
	grown := make([]byte, max(n, readAhead))
	r.w = copy(grown, r.buf[r.r:r.w])
	r.r, r.buf = 0, grown
}

func (r *receiver) moveDown() {
	r.w = copy(r.buf, r.buf[r.r:r.w])
	r.r = 0
}
