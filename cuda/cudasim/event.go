package cudasim

import "github.com/colligo-go/colligo/cuda"

type event struct {
	context  *context
	flags    cuda.EventFlags
	last     *op // recorded last; nil if never
	capture  *capture
	captured []*node
}

func nothing(*Sim, *op) status { return finished }

func (c *call) eventCreate(flags cuda.EventFlags) (cuda.Event, cuda.Result) {
	h := cuda.Event(c.sim.handle())
	c.process.events[h] = &event{context: c.context, flags: flags}
	return h, cuda.Success
}

func (c *call) eventDestroy(h cuda.Event) cuda.Result {
	if c.process.events[h] == nil {
		return cuda.InvalidHandle
	}
	delete(c.process.events, h)
	return cuda.Success
}

// eventRecord needs an event and a stream of the same context.
func (c *call) eventRecord(h cuda.Event, s cuda.Stream) cuda.Result {
	e := c.process.events[h]
	st, r := c.stream(s)
	if r != cuda.Success {
		return r
	}
	if e == nil || e.context != st.context {
		return cuda.InvalidHandle
	}
	if st.capture != nil && !st.implicit() {
		if st.capture.broken {
			return captureInvalidated
		}
		e.capture, e.captured, e.last = st.capture, st.captured, nil
		return cuda.Success
	}
	o, r := c.enqueue(st, "EventRecord", nothing)
	if r != cuda.Success {
		return r
	}
	e.last, e.capture, e.captured = o, nil, nil
	return cuda.Success
}

func (c *call) streamWaitEvent(st *stream, h cuda.Event) cuda.Result {
	e := c.process.events[h]
	if e == nil {
		return cuda.InvalidHandle
	}
	if e.capture != nil || st.capture != nil {
		return st.waitCaptured(e)
	}
	if e.last == nil {
		return cuda.Success
	}
	_, r := c.enqueue(st, "StreamWaitEvent", nothing, e.last)
	return r
}

// uncaptured is the check of calls that look at an event.
func (e *event) uncaptured() cuda.Result {
	if e.capture == nil {
		return e.context.sticky
	}
	e.capture.broken = true
	return capturedEvent
}

func (c *call) eventQuery(h cuda.Event) cuda.Result {
	e := c.process.events[h]
	if e == nil {
		return cuda.InvalidHandle
	}
	if r := e.uncaptured(); r != cuda.Success {
		return r
	}
	if e.last == nil {
		return cuda.Success
	}
	if !e.last.done {
		return cuda.NotReady
	}
	c.process.host.join(e.last.out)
	return cuda.Success
}

// eventElapsedTime counts a microsecond for each step of the executor.
func (c *call) eventElapsedTime(start, end cuda.Event) (float32, cuda.Result) {
	a, b := c.process.events[start], c.process.events[end]
	if a == nil || b == nil || (a.flags|b.flags)&cuda.EventDisableTiming != 0 || a.last == nil || b.last == nil {
		return 0, cuda.InvalidHandle
	}
	if !a.last.done || !b.last.done {
		return 0, cuda.NotReady
	}
	return float32(int64(b.last.time-a.last.time)) / 1000, cuda.Success
}
