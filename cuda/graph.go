package cuda

import "errors"

// BeginCapture starts to collect the work that is enqueued on s, and on streams that wait for its events, into a graph.
func (t Thread) BeginCapture(s Stream, m CaptureMode) error {
	return t.check("cuStreamBeginCapture", t.driver.StreamBeginCapture(s, m))
}

// EndCapture ends it and makes the graph executable. Unless the mode was relaxed it is called on the thread that began.
func (t Thread) EndCapture(s Stream) (GraphExec, error) {
	g, r := t.driver.StreamEndCapture(s)
	if err := t.check("cuStreamEndCapture", r); err != nil {
		return 0, err
	}
	e, r := t.driver.GraphInstantiate(g)
	err := t.check("cuGraphInstantiate", r)
	return e, errors.Join(err, t.check("cuGraphDestroy", t.driver.GraphDestroy(g)))
}

// Capturing reports whether s is captured, and by which capture.
func (t Thread) Capturing(s Stream) (status CaptureStatus, id uint64, err error) {
	status, id, r := t.driver.StreamGetCaptureInfo(s)
	return status, id, t.check("cuStreamGetCaptureInfo", r)
}

// ExchangeCaptureMode sets which calls this thread may make during a capture, and returns the mode before. A
// thread that polls events relaxes it around its calls, which else would break a capture in progress anywhere in the
// process.
func (t Thread) ExchangeCaptureMode(m CaptureMode) (CaptureMode, error) {
	before, r := t.driver.ThreadExchangeStreamCaptureMode(m)
	return before, t.check("cuThreadExchangeStreamCaptureMode", r)
}

// LaunchGraph enqueues all of a graph.
func (t Thread) LaunchGraph(g GraphExec, s Stream) error {
	return t.check("cuGraphLaunch", t.driver.GraphLaunch(g, s))
}

// DestroyGraph gives g back.
func (t Thread) DestroyGraph(g GraphExec) error {
	return t.check("cuGraphExecDestroy", t.driver.GraphExecDestroy(g))
}
