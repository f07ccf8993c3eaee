package peer

import (
	"errors"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/plan"
)

// queue is an order of operations: the collectives of a group follow one another, and so do its sends, and its receives.
type queue int

const (
	collectives queue = iota
	sends
	receives
	numQueues
)

func queueOf(c plan.Coll) queue {
	switch c {
	case plan.Send:
		return sends
	case plan.Recv:
		return receives
	}
	return collectives
}

// streamOrder is where the last operation of a queue runs. Its events are recorded and awaited in one go, so that they can be used
// again at once, but for left.
type streamOrder struct {
	begun    bool
	stream   cuda.Stream
	handover cuda.Event
	captured cuda.Event // the end of the last asynchronous operation that was captured
	left     departure
}

// departure is the end of a queue's last operation that was not captured, while those after it are, on other streams.
type departure struct {
	open   bool
	legacy bool // it was on the legacy default stream, on which nothing may be recorded in a capture, but which stays
	event  cuda.Event
}

// from notes that a captured operation comes after one on stream s that was not.
func (d *departure) from(t cuda.Thread, s cuda.Stream) error {
	if d.open {
		return nil
	}
	if d.open, d.legacy = true, s == 0; d.legacy {
		return nil
	}
	return t.Record(d.event, s)
}

// before makes s, which is not captured, wait for it.
func (d *departure) before(t cuda.Thread, s cuda.Stream) error {
	if !d.open {
		return nil
	}
	if d.open = false; d.legacy {
		return follow(t, s, 0, d.event)
	}
	return t.WaitEvent(s, d.event)
}

// streams are the backend's own. A device runs few streams side by side, so each is made when it is first used.
type streams struct {
	setup lazyStream            // of opening, and of releasing waits after a failure
	async [numQueues]lazyStream // of asynchronous operations
	ring  ringStreams
	down  [numQueues]lazyStream // of staging
	up    [numQueues]lazyStream
}

// lazyStream is a stream with an event that orders another stream after it.
type lazyStream struct {
	stream cuda.Stream
	event  cuda.Event
	made   bool
}

func (l *lazyStream) make(t cuda.Thread) (err error) {
	if l.made {
		return nil
	}
	_, greatest, err := t.Priorities() // operations go before the caller's own work
	if err != nil {
		return err
	}
	if l.stream, err = t.NewStream(greatest); err != nil {
		return err
	}
	if l.event, err = t.NewEvent(false); err != nil {
		return errors.Join(err, t.DestroyStream(l.stream))
	}
	l.made = true
	return nil
}

func (s *streams) all() []*lazyStream {
	all := []*lazyStream{&s.setup}
	for q := range s.async {
		all = append(all, &s.async[q], &s.down[q], &s.up[q])
	}
	return append(all, &s.ring.copy, &s.ring.signal, &s.ring.gate, &s.ring.fold)
}

func (b *backend) makeStreams(t cuda.Thread) error {
	errs := []error{b.streams.setup.make(t), b.throttle.make(t, throttleEvents), b.ends.make(t, openEnds)}
	for q := range b.streamOrders {
		for _, e := range []*cuda.Event{&b.streamOrders[q].handover, &b.streamOrders[q].captured, &b.streamOrders[q].left.event, &b.progress[q].event, &b.watches[q].event} {
			var err error
			*e, err = t.NewEvent(false)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (b *backend) freeStreams(t cuda.Thread) error {
	var errs []error
	for _, l := range b.streams.all() {
		if l.made {
			errs = append(errs, t.DestroyStream(l.stream), t.DestroyEvent(l.event))
		}
	}
	evs := b.streams.ring.folded[:]
	for q := range b.streamOrders {
		evs = append(evs, b.watches[q].event, b.streamOrders[q].handover, b.streamOrders[q].captured, b.streamOrders[q].left.event, b.progress[q].event)
	}
	for _, e := range evs {
		if e != 0 {
			errs = append(errs, t.DestroyEvent(e))
		}
	}
	return errors.Join(errs...)
}

// busyStreams returns the streams on which operations can be: the backend's, and the callers' last ones.
func (b *backend) busyStreams() []cuda.Stream {
	var all []cuda.Stream
	for _, l := range b.streams.all() {
		if l.made {
			all = append(all, l.stream)
		}
	}
	for q := range b.streamOrders {
		if b.streamOrders[q].begun {
			all = append(all, b.streamOrders[q].stream)
		}
	}
	return all
}

// fork makes the stream of a queue's asynchronous operations wait for the caller's.
func (b *backend) fork(t cuda.Thread, q queue, caller cuda.Stream) (cuda.Stream, error) {
	l := &b.streams.async[q]
	if err := l.make(t); err != nil {
		return 0, err
	}
	return l.stream, follow(t, l.stream, caller, l.event)
}

// follow makes stream after wait for all that is on stream before now.
func follow(t cuda.Thread, after, before cuda.Stream, e cuda.Event) error {
	if err := t.Record(e, before); err != nil {
		return err
	}
	return t.WaitEvent(after, e)
}

// takeStreamOrder makes s wait for the queue's operation before, if that ran on another stream. A graph's operations are ordered
// with others by where it is launched, not here. So what is captured waits for what the same graph has captured before, and
// what is not for what was not, though a capture may have come between the two.
func (b *backend) takeStreamOrder(t cuda.Thread, q queue, s cuda.Stream) error {
	w := &b.streamOrders[q]
	before, begun := w.stream, w.begun
	w.stream, w.begun = s, true
	if !begun || before == s && !w.left.open {
		return nil
	}
	into, graph, err := capture(t, s)
	from, other, err2 := capture(t, before)
	if err := first(err, err2); err != nil {
		return err
	}
	if into && !from {
		return w.left.from(t, before)
	}
	if !into {
		err = w.left.before(t, s)
	}
	if err != nil || into != from || graph != other || before == s {
		return err
	}
	return follow(t, s, before, w.handover)
}

// capture reports whether a stream is captured, and by which graph. The legacy default stream never is.
func capture(t cuda.Thread, s cuda.Stream) (bool, uint64, error) {
	if s == 0 {
		return false, 0, nil
	}
	status, id, err := t.Capturing(s)
	return status != cuda.CaptureNone, id, err
}

// recordApart records an event on a stream that another goroutine may begin to capture at any moment. It reports false,
// and the event is not to be asked then, if it is or may be part of a capture: asking for it would end that.
func recordApart(t cuda.Thread, e cuda.Event, s cuda.Stream) (bool, error) {
	if captured, _, err := capture(t, s); captured || err != nil {
		return false, err
	}
	if err := t.Record(e, s); err != nil {
		return false, err
	}
	captured, _, err := capture(t, s)
	return !captured, err
}

// relaxed calls f, which is no part of any capture, though one may be going on in the process.
func relaxed(t cuda.Thread, f func() error) error {
	before, err := t.ExchangeCaptureMode(cuda.CaptureRelaxed)
	if err != nil {
		return err
	}
	err = f()
	_, err2 := t.ExchangeCaptureMode(before)
	return errors.Join(err, err2)
}
