package streamorder

import (
	"errors"
	"time"

	"github.com/colligo-go/colligo/cuda"
)

// Stream is a stream of the backend with an event that orders another stream after it. A device runs few streams side by
// side, so each is made when it is first used (Order.Make).
type Stream struct {
	cuda.Stream
	Event cuda.Event
	Made  bool
}

// Make makes a stream unless it is there already. Operations go before the caller's own work, unless
// Order.Usual says otherwise. Order.Close gives the stream back.
func (o *Order) Make(t cuda.Thread, s *Stream) error {
	if s.Made {
		return nil
	}
	_, greatest, err := t.Priorities()
	if err != nil {
		return err
	}
	if o.Usual {
		greatest = 0
	}
	if s.Stream, err = t.NewStream(greatest); err != nil {
		return err
	}
	if s.Event, err = t.NewEvent(false); err != nil {
		err = errors.Join(err, t.DestroyStream(s.Stream))
		s.Stream = 0
		return err
	}
	s.Made = true
	o.made = append(o.made, s)
	return nil
}

// MakeAsync makes the streams of asynchronous operations, which else the first operation of each queue makes. The driver may
// wait for the device when it makes a stream, with a lock of the context held. So ranks that share a device call it before they enqueue.
// It returns the streams.
func (o *Order) MakeAsync(t cuda.Thread) (streams []*Stream, err error) {
	for q := range o.async {
		err = errors.Join(err, o.Make(t, &o.async[q]))
		streams = append(streams, &o.async[q])
	}
	return streams, err
}

// Warm has new streams carry a command of each kind that operations enqueue. Ranks that share a device call it before any of them enqueues
// operations there. An H100 never began the first commands of a new stream while another rank's stream was waiting, in about one group of 250.
// At spare lie as many words of the device as there are streams, and one more that Warm only reads. Words that are 0 remain so. The function
// enqueues what else there is, on the i-th stream. Warm waits for the streams, but not long: another group may keep the device.
func Warm(t cuda.Thread, streams []*Stream, spare cuda.Pointer, others func(i int, s cuda.Stream) error) error {
	c := On(t)
	for i, l := range streams {
		at := spare + cuda.Pointer(4*(1+i))
		c.Write32(l.Stream, at, 0)
		c.Wait32(l.Stream, at, 0)
		c.Copy(at, spare, 4, l.Stream)
		c.Do(func() error { return others(i, l.Stream) })
		c.Follow(l.Stream, l.Stream, l.Event)
	}
	end := time.Now().Add(Farewell)
	for _, l := range streams {
		for n, done := 0, false; !done && c.Err == nil && time.Now().Before(end); {
			n = Pause(n)
			done, c.Err = t.StreamDone(l.Stream)
		}
	}
	return c.Err
}

// Capture reports whether a stream is captured, and by which graph. The legacy default stream never is.
func Capture(t cuda.Thread, s cuda.Stream) (bool, uint64, error) {
	if s == 0 {
		return false, 0, nil
	}
	status, id, err := t.Capturing(s)
	return status != cuda.CaptureNone, id, err
}

// Relaxed calls f, which is no part of any capture, though one may be going on in the process.
func Relaxed(t cuda.Thread, f func() error) error {
	before, err := t.ExchangeCaptureMode(cuda.CaptureRelaxed)
	if err != nil {
		return err
	}
	err = f()
	_, err2 := t.ExchangeCaptureMode(before)
	return errors.Join(err, err2)
}

// OnDevice calls f, which is no part of any capture, on a thread of a device.
func OnDevice(d *cuda.Device, f func(t cuda.Thread) error) error {
	t, err := d.Enter()
	if err != nil {
		return err
	}
	defer t.Leave()
	return Relaxed(t, func() error { return f(t) })
}

// recordApart records an event on a stream that another goroutine may begin to capture at any moment. It reports false if
// the event is or may be part of a capture. Such an event must not be asked: asking would end the capture.
func recordApart(t cuda.Thread, e cuda.Event, s cuda.Stream) (bool, error) {
	if captured, _, err := Capture(t, s); captured || err != nil {
		return false, err
	}
	if err := t.Record(e, s); err != nil {
		return false, err
	}
	captured, _, err := Capture(t, s)
	return !captured, err
}
