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
	_           uint8
	lane, flags uint16
	step        uint32
	length      uint32            // bytes of the payload; the receiver reads it once
	tail        [inlineBytes]byte // a payload of up to 8 bytes, or the checksum
}

// write fills in all but turn and tail.
func (l *line) write(h *transport.Header) {
	l.seq, l.count, l.total = h.Call.Seq, h.Call.Count, h.Total
	l.group, l.root = h.Call.Group, h.Call.Root
	l.coll, l.dtype, l.op = h.Call.Coll, h.Call.DType, h.Call.Op
	l.lane, l.flags, l.step, l.length = h.Lane, h.Flags, h.Step, h.Len
}

// read copies the header out of shared memory and compares the copy with what the ring of this lane can carry.
func (l *line) read(h *transport.Header, lane, frame int) error {
	h.Call.Seq, h.Call.Count, h.Total = l.seq, l.count, l.total
	h.Call.Group, h.Call.Root = l.group, l.root
	h.Call.Coll, h.Call.DType, h.Call.Op = l.coll, l.dtype, l.op
	h.Lane, h.Flags, h.Step = l.lane, l.flags, l.step
	h.Len = atomic.LoadUint32(&l.length)
	if h.Len > uint32(frame) || int(h.Lane) != lane {
		return fmt.Errorf("%w: %d bytes for lane %d in a slot of %d bytes on lane %d",
			transport.ErrCorrupt, h.Len, h.Lane, frame, lane)
	}
	return nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sum is the CRC-32C of an encoded header and a payload. The scratch keeps it from allocating.
func sum(h *transport.Header, p []byte, scratch *[transport.HeaderSize]byte) uint32 {
	h.Encode(scratch)
	return crc32.Update(binary.LittleEndian.Uint32(scratch[60:]), castagnoli, p)
}
