package gloo

import "fmt"

// opcode says what a message is.
type opcode uint64

// The opcodes. Opcode 0 addresses a buffer that both ends have registered, which ProcessGroupGloo never does.
const (
	opPayload    opcode = 1 // a payload follows
	opNoticeSend opcode = 2 // of a send
	opNoticeRecv opcode = 3 // of a receive
)

// The opcodes between two ranks of this package, see zerocopy.go. A peer in C++ would abort.
const (
	opReads  opcode = 'c'<<8 + iota // the sender of this message can read the memory of its receiver
	opRemote                        // a payload in the sender's memory, at an address
	opTaken                         // the receiver has read of it as many bytes as the length says
)

// headSize is the bytes of a message before its payload: six integers of eight bytes. They are the length of head and payload,
// opcode, slot, an offset, the length of the payload, and an offset at the receiver.
const headSize = 48

// maxPayload bounds one payload. PyTorch's tensors are smaller than the memory of a machine.
const maxPayload = 1 << 44

// head is the fixed part of a message.
type head struct {
	op   opcode
	slot uint64
	n    int // of a payload its length, of a notice that of the send or receive
}

// append appends the message's head to b.
func (h head) append(b []byte) []byte { return h.appendAt(b, 0) }

// appendAt appends the head of a payload that lies at an address.
func (h head) appendAt(b []byte, at uint64) []byte {
	n := uint64(headSize)
	if h.op == opPayload {
		n += uint64(h.n)
	}
	for _, word := range [...]uint64{n, uint64(h.op), h.slot, at, uint64(h.n), 0} {
		b = le.AppendUint64(b, word)
	}
	return b
}

// addressIn is the address in a head.
func addressIn(b []byte) uint64 { return le.Uint64(b[24:]) }

// decodeHead reads a head of headSize bytes.
func decodeHead(b []byte) (head, error) {
	total, op, length := le.Uint64(b), opcode(le.Uint64(b[8:])), le.Uint64(b[32:])
	want := uint64(headSize)
	if op == opPayload {
		want += length
	}
	switch {
	case (op < opPayload || op > opNoticeRecv) && (op < opReads || op > opTaken):
		return head{}, fmt.Errorf("%w: opcode %d", ErrProtocol, uint64(op))
	case length > maxPayload:
		return head{}, fmt.Errorf("%w: a length of %d bytes", ErrProtocol, length)
	case total != want:
		return head{}, fmt.Errorf("%w: a message of %d bytes with opcode %d and length %d", ErrProtocol, total, uint64(op), length)
	}
	return head{op, le.Uint64(b[16:]), int(length)}, nil
}

// Slot returns the number of a slot, by Gloo's prefix for a collective and its tag. With prefix 0 the slot is one of messages
// between two ranks.
func Slot(prefix uint8, tag uint32) uint64 {
	if prefix == 0 {
		return uint64(tag)
	}
	return uint64(prefix)<<56 | uint64(tag)<<24
}
