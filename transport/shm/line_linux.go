package shm

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"sync/atomic"

	"github.com/colligo-go/colligo/transport"
)

const inlineBytes = 8

// line is the head of a slot as it lies in shared memory: one cache line.
type line struct {
	turn        atomic.Uint64 // number of the frame, counted from 1; stored last
	seq         uint64
	count       uint64
	total       uint64
	group       uint32
	root        int32
	coll        uint8
	dtype       uint8
	op          uint8
	place       uint8 // where the payload is
	lane, flags uint16
	step        uint32
	length      uint32            // bytes of the payload; the receiver reads it once
	tail        [inlineBytes]byte // a payload of up to 8 bytes, the checksum, or the payload's address
}

// Places of a payload.
const (
	inSlot   = iota // of the ring: the tail, or the slot's body
	inSender        // the sender's memory, at the address in the tail
)

// write fills in all but turn and tail.
func (l *line) write(h *transport.Header, place uint8) {
	l.seq, l.count, l.total = h.Call.Seq, h.Call.Count, h.Total
	l.group, l.root = h.Call.Group, h.Call.Root
	l.coll, l.dtype, l.op, l.place = h.Call.Coll, h.Call.DType, h.Call.Op, place
	l.lane, l.flags, l.step, l.length = h.Lane, h.Flags, h.Step, h.Len
}

// read copies the header out of shared memory and compares the copy with what the ring of this lane can carry. A slot holds a payload of
// at most frame bytes. One in the sender's memory has at most remote bytes.
func (l *line) read(h *transport.Header, lane, frame, remote int) (place uint8, err error) {
	h.Call.Seq, h.Call.Count, h.Total = l.seq, l.count, l.total
	h.Call.Group, h.Call.Root = l.group, l.root
	h.Call.Coll, h.Call.DType, h.Call.Op = l.coll, l.dtype, l.op
	h.Lane, h.Flags, h.Step = l.lane, l.flags, l.step
	h.Len = atomic.LoadUint32(&l.length)
	place, most := l.place, frame
	if place == inSender {
		most = remote
	}
	if place > inSender || uint64(h.Len) > uint64(most) || int(h.Lane) != lane {
		return 0, fmt.Errorf("%w: %d bytes for lane %d in place %d, where %d fit, on lane %d",
			transport.ErrCorrupt, h.Len, h.Lane, place, most, lane)
	}
	return place, nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sum is the CRC-32C of an encoded header and a payload. The scratch keeps it from allocating.
func sum(h *transport.Header, p []byte, scratch *[transport.HeaderSize]byte) uint32 {
	h.Encode(scratch)
	return crc32.Update(binary.LittleEndian.Uint32(scratch[60:]), castagnoli, p)
}
