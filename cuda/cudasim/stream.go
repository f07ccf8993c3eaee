package cudasim

import (
	"fmt"
	"maps"
	"slices"

	"github.com/colligo-go/colligo/cuda"
)

const (
	leastPriority    = 0
	greatestPriority = -5
)

type stream struct {
	queue
	context  *context
	handle   cuda.Stream
	flags    cuda.StreamFlags
	capture  *capture
	captured []*node // what the next captured operation follows
	gone     bool    // destroyed; what is enqueued still runs
}

func (s *Sim) newStream(x *context, flags cuda.StreamFlags) *stream {
	return &stream{queue: queue{actor: s.newActor()}, context: x, flags: flags}
}

// sortedStreams returns a process's streams in the order in which they were made. Destroyed streams are among them as
// long as they have something to do.
func sortedStreams(p *Process) []*stream {
	maps.DeleteFunc(p.streams, func(_ cuda.Stream, st *stream) bool {
		over := st.gone && len(st.ops) == 0
		if over && st.tail != nil {
			st.context.ended.join(st.tail.out)
		}
		return over
	})
	var all []*stream
	for _, h := range slices.Sorted(maps.Keys(p.streams)) {
		all = append(all, p.streams[h])
	}
	return all
}

func (c *call) streamCreate(flags cuda.StreamFlags, _ int) (cuda.Stream, cuda.Result) {
	if flags > cuda.StreamNonBlocking {
		return 0, cuda.InvalidValue
	}
	st := c.sim.newStream(c.context, flags)
	st.handle = cuda.Stream(c.sim.handle())
	c.process.streams[st.handle] = st
	return st.handle, cuda.Success
}

// legacyStream is CU_STREAM_LEGACY, which is what 0 means.
const legacyStream = 1

// stream finds a stream, and tells of its context's failure. The driver may crash where a stream is destroyed, so that is a fault here.
func (c *call) stream(h cuda.Stream) (*stream, cuda.Result) {
	if h == 0 || h == legacyStream {
		return c.context.legacy, cuda.Success
	}
	st := c.process.streams[h]
	if st == nil || st.gone {
		if of, was := c.sim.destroyed[h]; was && of == c.process.id {
			c.sim.fault(fmt.Sprintf("process %d: %s gets stream %#x, which is destroyed\n%s", c.process.id, c.function, uintptr(h), stack(callStack(), "    ")))
		}
		return nil, cuda.InvalidHandle
	}
	return st, st.context.sticky
}

// streamDestroy lets what is enqueued run. A stream that is captured cannot be destroyed.
func (c *call) streamDestroy(st *stream) cuda.Result {
	if st == st.context.legacy {
		return cuda.InvalidValue
	}
	if st.capture != nil {
		st.capture.broken = true
		return cuda.StreamCaptureUnsupported
	}
	st.gone, c.sim.destroyed[st.handle] = true, c.process.id
	return cuda.Success
}

// implicit reports whether use of a stream would tie the legacy stream to a capture.
func (st *stream) implicit() bool {
	if st != st.context.legacy {
		return false
	}
	broken := false
	for _, o := range sortedStreams(st.context.process) {
		if o.context == st.context && o.flags&cuda.StreamNonBlocking == 0 && o.capture != nil {
			o.capture.broken = true
			broken = true
		}
	}
	return broken
}

// outside is the check of calls that look at a stream, which a capture does not allow.
func (c *call) outside(st *stream) cuda.Result {
	switch {
	case st.capture != nil:
		st.capture.broken = true
		return cuda.StreamCaptureUnsupported
	case st.implicit():
		return captureImplicit
	case c.capturedNear():
		return cuda.StreamCaptureUnsupported
	}
	return cuda.Success
}

func (c *call) streamQuery(st *stream) cuda.Result {
	if r := c.outside(st); r != cuda.Success {
		return r
	}
	for _, o := range c.lastOf(st) {
		if !o.done {
			return cuda.NotReady
		}
		c.process.host.join(o.out)
	}
	return st.context.sticky
}

func (c *call) streamSynchronize(st *stream) cuda.Result {
	if r := c.outside(st); r != cuda.Success {
		return r
	}
	if r := c.await(c.lastOf(st), fmt.Sprintf("stream %#x", uintptr(st.handle))); r != cuda.Success {
		return r
	}
	return st.context.sticky
}

// lastOf returns what is done when the stream is: its last operation, for the legacy stream those of all that it waits
// for too.
func (c *call) lastOf(st *stream) []*op {
	var ops []*op
	if st.tail != nil {
		ops = append(ops, st.tail)
	}
	return append(ops, c.blocking(st)...)
}

// blocking returns the operations that a new one in st follows because of the legacy default stream.
func (c *call) blocking(st *stream) []*op {
	legacy := st.context.legacy
	if st != legacy {
		if st.flags&cuda.StreamNonBlocking == 0 && legacy.tail != nil {
			return []*op{legacy.tail}
		}
		return nil
	}
	var ops []*op
	for _, o := range sortedStreams(c.process) {
		if o.context == st.context && o.flags&cuda.StreamNonBlocking == 0 && o.tail != nil {
			ops = append(ops, o.tail)
		}
	}
	return ops
}

func (c *call) origin(st *stream, what string) *origin {
	return &origin{name: what, process: c.process.id, device: st.context.device, stream: st.handle, pcs: callStack()}
}

// enqueue puts an operation into a stream, or into the graph that the stream is captured for. A full stream blocks the
// call, and the process with it.
func (c *call) enqueue(st *stream, what string, b body, after ...*op) (*op, cuda.Result) {
	o := c.origin(st, what)
	if st.implicit() {
		return nil, captureImplicit
	}
	if st.capture != nil {
		return nil, st.capture.add(c, st, o, b)
	}
	if r := c.room(st); r != cuda.Success {
		return nil, r
	}
	x := &op{origin: o, process: c.process, context: st.context, body: b, in: c.process.host.know()}
	for _, before := range append(after, c.blocking(st)...) {
		x.follow(before)
	}
	c.sim.push(&st.queue, x)
	return x, cuda.Success
}

// room waits until a stream takes one more operation.
func (c *call) room(st *stream) cuda.Result {
	free := func() bool { return len(st.ops) < c.sim.config.QueueDepth || c.process.dead }
	for !free() {
		what := fmt.Sprintf("%s waits, with the process locked, for room in stream %#x, which holds %d operations",
			c.function, uintptr(st.handle), len(st.ops))
		r := c.locked(func() cuda.Result {
			if !c.sim.wait(c.process, what, free) {
				return c.lost()
			}
			return cuda.Success
		})
		if r != cuda.Success {
			return r
		}
	}
	if c.process.dead {
		return deinitialized
	}
	return st.context.sticky
}

func (c *call) simple(st *stream, what string, b body) cuda.Result {
	_, r := c.enqueue(st, what, b)
	return r
}
