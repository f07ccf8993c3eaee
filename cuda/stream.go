package cuda

// Priorities returns the least and the greatest priority of streams; smaller numbers go first.
func (t Thread) Priorities() (least, greatest int, err error) {
	least, greatest, r := t.driver.CtxGetStreamPriorityRange()
	return least, greatest, t.check("cuCtxGetStreamPriorityRange", r)
}

// NewStream makes a stream that does not order with the legacy default stream. Priority 0 is the least.
func (t Thread) NewStream(priority int) (Stream, error) {
	s, r := t.driver.StreamCreateWithPriority(StreamNonBlocking, priority)
	return s, t.check("cuStreamCreateWithPriority", r)
}

// DestroyStream gives s back. Work that is enqueued on it still runs.
func (t Thread) DestroyStream(s Stream) error {
	return t.check("cuStreamDestroy", t.driver.StreamDestroy(s))
}

// Synchronize blocks until everything enqueued on s is done. It returns failures of enqueued work, too.
func (t Thread) Synchronize(s Stream) error {
	return t.check("cuStreamSynchronize", t.driver.StreamSynchronize(s))
}

// StreamDone reports whether everything enqueued on s is done.
func (t Thread) StreamDone(s Stream) (bool, error) {
	return t.done("cuStreamQuery", t.driver.StreamQuery(s))
}

// Write32 enqueues the writing of value to at, a multiple of four, after all that s has done before is visible.
func (t Thread) Write32(s Stream, at Pointer, value uint32) error {
	return t.check("cuStreamWriteValue32", t.driver.StreamWriteValue32(s, at, value))
}

// Wait32 makes s wait until the word at at is value or later, counting around the end of the 32 bits.
func (t Thread) Wait32(s Stream, at Pointer, value uint32) error {
	return t.check("cuStreamWaitValue32", t.driver.StreamWaitValue32(s, at, value, WaitGreaterEqual))
}

// NewEvent makes an event. Only an event made for timing can be passed to Elapsed, and it costs more to record.
func (t Thread) NewEvent(timing bool) (Event, error) {
	flags := EventDisableTiming
	if timing {
		flags = 0
	}
	e, r := t.driver.EventCreate(flags)
	return e, t.check("cuEventCreate", r)
}

// DestroyEvent gives e back, when it has happened if it is still awaited.
func (t Thread) DestroyEvent(e Event) error {
	return t.check("cuEventDestroy", t.driver.EventDestroy(e))
}

// Record makes e happen when s has done all that is enqueued there now.
func (t Thread) Record(e Event, s Stream) error {
	return t.check("cuEventRecord", t.driver.EventRecord(e, s))
}

// WaitEvent makes s wait for e as last recorded.
func (t Thread) WaitEvent(s Stream, e Event) error {
	return t.check("cuStreamWaitEvent", t.driver.StreamWaitEvent(s, e))
}

// EventDone reports whether e has happened since it was last recorded.
func (t Thread) EventDone(e Event) (bool, error) {
	return t.done("cuEventQuery", t.driver.EventQuery(e))
}

// Elapsed returns the milliseconds between two timed events that have happened, to half a microsecond.
func (t Thread) Elapsed(start, end Event) (float32, error) {
	ms, r := t.driver.EventElapsedTime(start, end)
	return ms, t.check("cuEventElapsedTime", r)
}

func (t Thread) done(fn string, r Result) (bool, error) {
	if r == NotReady {
		return false, nil
	}
	return r == Success, t.check(fn, r)
}
