package stream

// ring is a bounded queue of bytes. Its memory is taken at first use.
type ring struct {
	buf        []byte
	start, len int
}

// RingBytes holds several TLS records, and enough that both sides of it work at a time.
const RingBytes = 256 << 10

// space returns free memory that follows what is queued, empty if the ring is full. Added makes it part of the queue.
func (r *ring) space() []byte {
	if r.buf == nil {
		r.buf = make([]byte, RingBytes)
	}
	if r.len == 0 {
		r.start = 0
	}
	end := r.start + r.len
	if end >= len(r.buf) {
		return r.buf[end-len(r.buf) : r.start]
	}
	return r.buf[end:]
}

func (r *ring) added(n int) { r.len += n }

// queued returns the first bytes of the queue, as many as lie together. Taken removes them.
func (r *ring) queued() []byte { return r.buf[r.start:min(r.start+r.len, len(r.buf))] }

func (r *ring) taken(n int) {
	r.len -= n
	if r.start += n; r.start == len(r.buf) {
		r.start = 0
	}
}

// put queues what fits of p and returns how much that was.
func (r *ring) put(p []byte) (total int) {
	for len(p) > total {
		n := copy(r.space(), p[total:])
		if n == 0 {
			break
		}
		r.added(n)
		total += n
	}
	return total
}

// take moves from the queue to p what is there and returns how much that was.
func (r *ring) take(p []byte) (total int) {
	for len(p) > total && r.len > 0 {
		n := copy(p[total:], r.queued())
		r.taken(n)
		total += n
	}
	return total
}
