package transport

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// Call identifies one operation of a group. All ranks must reach the same Call with the same sequence number. Frames carry
// it, so that a mismatch is an error that names both sides. Bytes are never read as something else.
type Call struct {
	Group uint32
	Coll  uint8 // plan.Coll
	DType uint8 // colligo.DType
	Op    uint8 // colligo.OpKind where the collective reduces
	_     uint8
	Seq   uint64 // sequence number of a collective; 0 for send and recv, which their lane keeps in order
	Count uint64 // elements of the operation, as its plan.Shape counts them
	Root  int32  // root; for send and recv the tag
}

// Header is what goes before a payload.
type Header struct {
	Call  Call
	Lane  uint16
	Flags uint16
	Step  uint32 // index of the sender's step
	Len   uint32 // bytes of this payload, before compression
	Total uint64 // bytes of the whole step, of which this frame carries a part
}

// Flags of a header.
const (
	FlagCompressed uint16 = 1 << iota // the payload is compressed; its first four bytes are its compressed length
	FlagChecksum                      // four bytes of CRC-32C follow the payload
)

// HeaderSize is the bytes of an encoded header.
const HeaderSize = 64

const magic = 0x31676c63 // "clg1": the last digit is the version of the format

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Checksum is the CRC-32C that guards headers and, if asked for, payloads.
func Checksum(p []byte) uint32 { return crc32.Checksum(p, castagnoli) }

// Encode writes the header in little-endian order: magic, version and every field, then a CRC-32C of what precedes.
func (h *Header) Encode(b *[HeaderSize]byte) {
	le := binary.LittleEndian
	le.PutUint32(b[0:], magic)
	le.PutUint32(b[4:], h.Call.Group)
	b[8], b[9], b[10], b[11] = h.Call.Coll, h.Call.DType, h.Call.Op, 0
	le.PutUint32(b[12:], uint32(h.Call.Root))
	le.PutUint64(b[16:], h.Call.Seq)
	le.PutUint64(b[24:], h.Call.Count)
	le.PutUint16(b[32:], h.Lane)
	le.PutUint16(b[34:], h.Flags)
	le.PutUint32(b[36:], h.Step)
	le.PutUint32(b[40:], h.Len)
	le.PutUint64(b[44:], h.Total)
	le.PutUint64(b[52:], 0)
	le.PutUint32(b[60:], Checksum(b[:60]))
}

// Decode reads a header and checks magic, version, checksum and limits.
func (h *Header) Decode(b *[HeaderSize]byte) error {
	le := binary.LittleEndian
	if got := le.Uint32(b[0:]); got != magic {
		return fmt.Errorf("%w: header begins with %#08x, not %#08x", ErrCorrupt, got, magic)
	}
	if got, want := le.Uint32(b[60:]), Checksum(b[:60]); got != want {
		return fmt.Errorf("%w: header checksum %#08x, computed %#08x", ErrCorrupt, got, want)
	}
	h.Call = Call{Group: le.Uint32(b[4:]), Coll: b[8], DType: b[9], Op: b[10], Root: int32(le.Uint32(b[12:])),
		Seq: le.Uint64(b[16:]), Count: le.Uint64(b[24:])}
	h.Lane, h.Flags, h.Step = le.Uint16(b[32:]), le.Uint16(b[34:]), le.Uint32(b[36:])
	h.Len, h.Total = le.Uint32(b[40:]), le.Uint64(b[44:])
	if h.Len > MaxFrame || h.Lane >= MaxLanes {
		return fmt.Errorf("%w: %d bytes on lane %d; limits are %d bytes and %d lanes", ErrCorrupt, h.Len, h.Lane, MaxFrame, MaxLanes)
	}
	return nil
}
