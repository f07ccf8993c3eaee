package tcp

import (
	"encoding/binary"
	"fmt"

	"github.com/colligo-go/colligo/transport"
	"github.com/colligo-go/colligo/transport/internal/stream"
)

// sender is the sending half of a lane.
type sender struct {
	s        stream.Stream
	codec    codec // nil: no compression
	checksum bool

	busy   bool // a frame is partly written
	h      transport.Header
	packed []byte // the payload, compressed, if it goes out so
	memory []byte // of packed
	sum    [4]byte
	off    int // bytes of the frame written
	vec    [3][]byte
	room   [transport.HeaderSize + shortBytes + 4]byte // begins with the header
	short  []byte                                      // the whole frame, in room, if the payload is short
}

// shortBytes is the most bytes of a payload that is copied behind its header. The kernel takes one buffer in less time than two.
const shortBytes = 512

// send writes what it can of a frame and says whether that was all of it.
func (o *sender) send(h *transport.Header, p []byte) (bool, error) {
	if !o.busy {
		o.begin(h, p)
	} else if *h != o.h {
		panic(fmt.Sprintf("tcp: frame %+v offered on lane %d before frame %+v was taken", *h, h.Lane, o.h))
	}
	if o.packed != nil {
		p = o.packed
	}
	for {
		bufs := o.rest(p)
		if len(bufs) == 0 {
			o.busy = false
			return true, nil
		}
		n, err := o.s.Write(bufs)
		if n == 0 {
			return false, err
		}
		o.off += n
	}
}

// begin makes everything that goes out but the plain payload.
func (o *sender) begin(h *transport.Header, p []byte) {
	if int(h.Len) != len(p) {
		panic(fmt.Sprintf("tcp: payload of %d bytes under a header that says %d", len(p), h.Len))
	}
	o.busy, o.h, o.off, o.packed = true, *h, 0, nil
	out := *h
	if o.codec != nil && len(p) >= compressFrom {
		if o.packed, o.memory = pack(o.codec, o.memory, p); o.packed != nil {
			p = o.packed
			out.Flags |= transport.FlagCompressed
		}
	}
	if o.checksum && len(p) > 0 {
		out.Flags |= transport.FlagChecksum
		binary.LittleEndian.PutUint32(o.sum[:], transport.Checksum(p))
	}
	out.Encode((*[transport.HeaderSize]byte)(o.room[:]))
	if o.short = nil; len(p) <= shortBytes {
		o.short = append(o.room[:transport.HeaderSize], p...)
		if o.checksum && len(p) > 0 {
			o.short = append(o.short, o.sum[:]...)
		}
	}
}

// rest returns what of the frame is not yet written.
func (o *sender) rest(p []byte) [][]byte {
	bufs, off := o.vec[:0], o.off
	parts := [3][]byte{o.short}
	if o.short == nil {
		parts = [3][]byte{o.room[:transport.HeaderSize], p}
		if o.checksum {
			parts[2] = o.sum[:]
		}
	}
	for _, b := range parts {
		if off < len(b) {
			bufs = append(bufs, b[off:])
		}
		off = max(0, off-len(b))
	}
	return bufs
}
