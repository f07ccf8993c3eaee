package cudasim

import (
	"slices"

	"github.com/colligo-go/colligo/cuda"
)

// A capture collects the operations that are enqueued on its streams.
type capture struct {
	id      uint64
	origin  *stream
	mode    cuda.CaptureMode
	thread  uint64
	streams []*stream
	nodes   []*node // each after those that it follows
	broken  bool    // by a call that it does not allow
}

// A node is a captured operation.
type node struct {
	origin *origin
	body   body
	after  []*node
}

func (c *capture) add(on *call, st *stream, o *origin, b body) cuda.Result {
	if c.broken {
		return captureInvalidated
	}
	n := &node{o, b, st.captured}
	c.nodes = append(c.nodes, n)
	st.captured = []*node{n}
	return cuda.Success
}

// capturedNear reports, and breaks, a capture that forbids calls which could reach outside it. It may be this thread's
// capture, or a global one of any thread, as far as this thread's mode minds.
func (c *call) capturedNear() bool {
	mode, found := c.thread.mode, false
	for _, k := range c.process.captures {
		mine := k.thread == c.threadID && k.mode != cuda.CaptureRelaxed
		minded := mode == cuda.CaptureGlobal && (mine || k.mode == cuda.CaptureGlobal) ||
			mode == cuda.CaptureThreadLocal && mine
		if minded {
			k.broken, found = true, true
		}
	}
	return found
}

func (c *call) exchangeCaptureMode(m cuda.CaptureMode) (cuda.CaptureMode, cuda.Result) {
	if m < cuda.CaptureGlobal || m > cuda.CaptureRelaxed {
		return 0, cuda.InvalidValue
	}
	before := c.thread.mode
	c.thread.mode = m
	return before, cuda.Success
}

func (c *call) streamBeginCapture(st *stream, m cuda.CaptureMode) cuda.Result {
	switch {
	case m < cuda.CaptureGlobal || m > cuda.CaptureRelaxed:
		return cuda.InvalidValue
	case st == st.context.legacy:
		return cuda.StreamCaptureUnsupported
	case st.capture != nil:
		return illegalState
	}
	c.sim.lastMapping++
	k := &capture{id: c.sim.lastMapping, origin: st, mode: m, thread: c.threadID, streams: []*stream{st}}
	st.capture, st.captured = k, nil
	c.process.captures = append(c.process.captures, k)
	return cuda.Success
}

// waitCaptured makes a stream join the capture of an event, or follow it there.
func (st *stream) waitCaptured(e *event) cuda.Result {
	switch {
	case e.capture == nil && e.last == nil:
		return cuda.Success
	case e.capture == nil:
		st.capture.broken = true
		return captureIsolation
	case e.capture.broken:
		return captureInvalidated
	case !slices.Contains(e.capture.origin.context.process.captures, e.capture):
		return cuda.InvalidValue
	case st == st.context.legacy:
		e.capture.broken = true
		return captureImplicit
	case st.capture == nil:
		st.capture, st.captured = e.capture, nil
		e.capture.streams = append(e.capture.streams, st)
	case st.capture != e.capture:
		st.capture.broken, e.capture.broken = true, true
		return captureMerge
	}
	captured := slices.Clone(st.captured)
	for _, n := range e.captured {
		if !slices.Contains(captured, n) {
			captured = append(captured, n)
		}
	}
	st.captured = captured
	return cuda.Success
}

// streamEndCapture ends a capture whatever comes of it, unless it is asked of the wrong stream or thread.
func (c *call) streamEndCapture(h cuda.Stream) (cuda.Graph, cuda.Result) {
	st, r := c.stream(h)
	switch {
	case r != cuda.Success:
		return 0, r
	case st.capture == nil:
		return 0, illegalState
	case st.capture.origin != st:
		return 0, captureUnmatched
	case st.capture.mode != cuda.CaptureRelaxed && st.capture.thread != c.threadID:
		return 0, captureWrongThread
	}
	k, tail := st.capture, st.captured
	joined := k.joined(tail)
	for _, o := range k.streams {
		o.capture, o.captured = nil, nil
	}
	c.process.captures = slices.DeleteFunc(c.process.captures, func(o *capture) bool { return o == k })
	switch {
	case k.broken:
		return 0, captureInvalidated
	case !joined:
		return 0, captureUnjoined
	}
	g := cuda.Graph(c.sim.handle())
	c.process.graphs[g] = &graph{st.context, k.nodes}
	return g, cuda.Success
}

// joined reports whether all nodes come before the end of the stream that began.
func (c *capture) joined(tail []*node) bool {
	before := map[*node]bool{}
	for work := slices.Clone(tail); len(work) > 0; {
		n := work[len(work)-1]
		work = work[:len(work)-1]
		if !before[n] {
			before[n] = true
			work = append(work, n.after...)
		}
	}
	return len(before) == len(c.nodes)
}

func (c *call) streamGetCaptureInfo(h cuda.Stream) (cuda.CaptureStatus, uint64, cuda.Result) {
	st, r := c.stream(h)
	switch {
	case r != cuda.Success:
		return 0, 0, r
	case st.implicit():
		return 0, 0, captureImplicit
	case st.capture == nil:
		return cuda.CaptureNone, 0, cuda.Success
	case st.capture.broken:
		return cuda.CaptureInvalidated, st.capture.id, cuda.Success
	}
	return cuda.CaptureActive, st.capture.id, cuda.Success
}
