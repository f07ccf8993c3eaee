package cuda

import "unsafe"

func (l *library) bindStreams(d *Driver) {
	d.StreamCreateWithPriority = func(flags StreamFlags, priority int) (Stream, Result) {
		v, r := l.word(cuStreamCreateWithPriority, uintptr(flags), int32Word(int32(priority)))
		return Stream(v), r
	}
	d.StreamDestroy = func(s Stream) Result { return l.call(cuStreamDestroy, uintptr(s)) }
	d.StreamQuery = func(s Stream) Result { return l.call(cuStreamQuery, uintptr(s)) }
	d.StreamSynchronize = func(s Stream) Result { return l.call(cuStreamSynchronize, uintptr(s)) }
	d.StreamWaitEvent = func(s Stream, e Event) Result { return l.call(cuStreamWaitEvent, uintptr(s), uintptr(e), 0) }
	d.StreamWriteValue32 = func(s Stream, at Pointer, value uint32) Result {
		return l.call(cuStreamWriteValue32, uintptr(s), uintptr(at), uintptr(value), 0)
	}
	d.StreamWaitValue32 = func(s Stream, at Pointer, value uint32, flags WaitFlags) Result {
		return l.call(cuStreamWaitValue32, uintptr(s), uintptr(at), uintptr(value), uintptr(flags))
	}
}

func (l *library) bindCapture(d *Driver) {
	d.StreamBeginCapture = func(s Stream, m CaptureMode) Result {
		return l.call(cuStreamBeginCapture, uintptr(s), int32Word(int32(m)))
	}
	d.StreamEndCapture = func(s Stream) (Graph, Result) {
		var g Graph
		r := l.callOut(cuStreamEndCapture, uintptr(s), uintptr(unsafe.Pointer(&g)))
		return g, r
	}
	d.StreamGetCaptureInfo = l.captureInfo
	d.ThreadExchangeStreamCaptureMode = func(m CaptureMode) (CaptureMode, Result) {
		r := l.callOut(cuThreadExchangeStreamCaptureMode, uintptr(unsafe.Pointer(&m)))
		return m, r
	}
}

func (l *library) bindEvents(d *Driver) {
	d.EventCreate = func(flags EventFlags) (Event, Result) {
		v, r := l.word(cuEventCreate, uintptr(flags))
		return Event(v), r
	}
	d.EventDestroy = func(e Event) Result { return l.call(cuEventDestroy, uintptr(e)) }
	d.EventRecord = func(e Event, s Stream) Result { return l.call(cuEventRecord, uintptr(e), uintptr(s)) }
	d.EventQuery = func(e Event) Result { return l.call(cuEventQuery, uintptr(e)) }
	d.EventElapsedTime = func(start, end Event) (float32, Result) {
		var ms float32
		r := l.callOut(cuEventElapsedTime, uintptr(unsafe.Pointer(&ms)), uintptr(start), uintptr(end))
		return ms, r
	}
}
