package cudasim

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/colligo-go/colligo/cuda"
)

// resultError is what crashes an operation.
type resultError struct {
	code cuda.Result
	why  string
}

// at reaches memory for an operation that runs, or crashes it.
//
//go:norace
func (o *op) at(s *Sim, p cuda.Pointer, n int) (*memory, int, bool) {
	m, offset, t := o.process.reach(o.device, uint64(p), n)
	if t != nil {
		s.crash(o, resultError{illegalAddress, fmt.Sprintf("%d bytes at %#x: %s", n, uint64(p), t.why)})
		return nil, 0, false
	}
	return m, offset, true
}

// reachable checks an address when an operation is enqueued, as the driver does for copies, fills and stream values.
func (c *call) reachable(st *stream, p cuda.Pointer, n int) cuda.Result {
	if _, _, t := c.process.reach(st.context.device, uint64(p), n); t != nil {
		return t.code
	}
	return cuda.Success
}

// memcpyAsync is stricter than the driver. The driver takes pageable host memory. Between devices without access to one another it copies
// through the host, slowly and silently.
func (c *call) memcpyAsync(dst, src cuda.Pointer, bytes int, st *stream) cuda.Result {
	if bytes < 0 {
		return cuda.InvalidValue
	}
	if bytes == 0 {
		return cuda.Success
	}
	if r := max(c.reachable(st, dst, bytes), c.reachable(st, src, bytes)); r != cuda.Success {
		return r
	}
	return c.simple(st, "MemcpyAsync", func(s *Sim, o *op) status {
		to, a, ok := o.at(s, dst, bytes)
		if !ok {
			return finished
		}
		from, b, ok := o.at(s, src, bytes)
		if !ok {
			return finished
		}
		how, stored := source, (*stamp)(nil)
		if to.host() { // host code may look at flags while they are stored: each word is old or new
			how = flag
		}
		s.touch(o.accessor(), from, b, bytes, how, false, nil)
		if !to.host() {
			stored = o.queue.actor.relaxed()
		}
		s.touch(o.accessor(), to, a, bytes, copied, true, stored)
		s.copy(to.data[a:a+bytes], from.data[b:b+bytes])
		return finished
	})
}

// flagBytes is as much as a host copies that polls flags.
const flagBytes = 64

// copy copies bytes, and counts a change of memory unless they are few and were the same.
//
//go:norace
func (s *Sim) copy(dst, src []byte) {
	if len(src) > flagBytes || !bytes.Equal(dst, src) {
		s.changes++
	}
	copy(dst, src)
}

func (c *call) memsetAsync(dst cuda.Pointer, value uint32, width, count int, st *stream) cuda.Result {
	bytes := width * count
	if count < 0 || uint64(dst)%uint64(width) != 0 {
		return cuda.InvalidValue
	}
	if count == 0 {
		return cuda.Success
	}
	if r := c.reachable(st, dst, bytes); r != cuda.Success {
		return r
	}
	pattern := binary.LittleEndian.AppendUint32(nil, value)[:width]
	return c.simple(st, c.function, func(s *Sim, o *op) status {
		m, at, ok := o.at(s, dst, bytes)
		if !ok {
			return finished
		}
		if m.host() || slices.Max(pattern) != 0 {
			s.touch(o.accessor(), m, at, bytes, plain, true, nil)
			fill(m.data[at:at+bytes], pattern)
			return finished
		}
		m.pages.clear(at, at+bytes)
		s.touch(o.accessor(), m, at, bytes, plain, true, nil)
		m.pages.cleared(at, at+bytes)
		return finished
	})
}

//go:norace
func fill(b, pattern []byte) {
	for n := copy(b, pattern); n < len(b); n *= 2 {
		copy(b[n:], b[:n])
	}
}

func (c *call) streamWriteValue32(st *stream, at cuda.Pointer, value uint32) cuda.Result {
	if at%4 != 0 {
		return cuda.InvalidValue
	}
	if r := c.reachable(st, at, 4); r != cuda.Success {
		return r
	}
	return c.simple(st, "StreamWriteValue32", func(s *Sim, o *op) status {
		if m, offset, ok := o.at(s, at, 4); ok {
			before := m.swap(offset, value)
			s.post(o.accessor(), m, offset, before, value, o.queue.actor.release())
		}
		return finished
	})
}

// post makes a word that was stored seen by others, with what it publishes.
//
//go:norace
func (s *Sim) post(w accessor, m *memory, at int, before, value uint32, published *stamp) {
	s.append(m, at, before, value, published)
	s.touch(w, m, at, 4, flag, true, published)
	if m.host() {
		s.hostsSee(published)
	}
}

// hostsSee counts what is published in host memory as seen by all host code, which reads it without a call.
//
//go:norace
func (s *Sim) hostsSee(published *stamp) {
	s.host.join(published)
	for _, p := range s.processes {
		p.host.join(published)
	}
}

// The comparisons of StreamWaitValue32.
const (
	waitAnd = 2
	waitNor = 3
)

func (c *call) streamWaitValue32(st *stream, at cuda.Pointer, value uint32, flags cuda.WaitFlags) cuda.Result {
	if at%4 != 0 || flags > waitNor {
		return cuda.InvalidValue
	}
	if r := c.reachable(st, at, 4); r != cuda.Success {
		return r
	}
	return c.simple(st, "StreamWaitValue32", func(s *Sim, o *op) status {
		m, offset, ok := o.at(s, at, 4)
		if !ok {
			return finished
		}
		before := m.words(offset, offset+4) // what the host stores after this look wakes the operation
		published, ok := s.fits(&o.queue.actor, m, offset, func(v uint32) bool { return compare(v, value, flags) })
		if !ok {
			s.park(o)
			s.watch(m, watcher{lo: offset, hi: offset + 4, task: o, before: before})
			o.waits = func() string { return waitText(m, offset, value, flags) }
			return waiting
		}
		if published != nil {
			o.queue.actor.join(published)
		}
		s.touch(o.accessor(), m, offset, 4, flag, false, nil)
		return finished
	})
}

func compare(now, value uint32, flags cuda.WaitFlags) bool {
	switch flags {
	case cuda.WaitGreaterEqual:
		return int32(now-value) >= 0
	case cuda.WaitEqual:
		return now == value
	case waitAnd:
		return now&value != 0
	}
	return now|value != ^uint32(0)
}

func waitText(m *memory, at int, value uint32, flags cuda.WaitFlags) string {
	how := [...]string{"is at least", "is", "has a bit of", "lacks a bit of"}[flags]
	return fmt.Sprintf("waits until word %d of %v, which is %d, %s %d", at/4, m, m.get(at), how, value)
}
