package tcpstore

import (
	"encoding/binary"
	"net"
	"sync"
)

// outbox collects replies. Long values are referred to, not copied: a request for many keys takes little memory
// however large their values.
type outbox struct {
	mu   sync.Mutex
	full net.Buffers
	tail []byte // small pieces, after full
}

// copied is the size up to which a value is copied into the tail.
const copied = 512

func (o *outbox) byte(b byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tail = append(o.tail, b)
}

func (o *outbox) uint32(n uint32) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tail = binary.LittleEndian.AppendUint32(o.tail, n)
}

func (o *outbox) int64(n int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tail = binary.LittleEndian.AppendUint64(o.tail, uint64(n))
}

func (o *outbox) bytes(v []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tail = binary.LittleEndian.AppendUint64(o.tail, uint64(len(v)))
	if len(v) <= copied {
		o.tail = append(o.tail, v...)
		return
	}
	o.full = append(o.full, o.tail, v)
	o.tail = nil
}

// take empties the outbox. An idle connection holds no memory for replies.
func (o *outbox) take() net.Buffers {
	o.mu.Lock()
	defer o.mu.Unlock()
	due := o.full
	if len(o.tail) > 0 {
		due = append(due, o.tail)
	}
	o.full, o.tail = nil, nil
	return due
}
