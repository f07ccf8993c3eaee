package streamorder

import (
	"cmp"
	"errors"
	"runtime"
	"time"

	"github.com/colligo-go/colligo/cuda"
)

// A stream takes about a thousand commands before the call that enqueues another blocks. throttleEvents times throttleWeight
// commands stay well below.
const (
	throttleEvents = 4
	throttleWeight = 128
)

// OpenEnds bounds the asynchronous operations in flight.
const OpenEnds = 64

// events are used in rotation. One is recorded again only after it has happened; its generation counts the records.
type events struct {
	all         []cuda.Event
	generations []uint64
	next        int
}

func (m *events) make(t cuda.Thread, n int) error {
	m.all, m.generations = make([]cuda.Event, n), make([]uint64, n)
	for i := range m.all {
		var err error
		if m.all[i], err = t.NewEvent(false); err != nil {
			return err
		}
	}
	return nil
}

func (m *events) free(t cuda.Thread) error {
	var errs []error
	for _, e := range m.all {
		if e != 0 {
			errs = append(errs, t.DestroyEvent(e))
		}
	}
	return errors.Join(errs...)
}

// put records the next event on s, after the host has waited for it if it is still open.
func (o *Order) put(t cuda.Thread, m *events, s cuda.Stream) (slot int, err error) {
	i := m.next
	if m.generations[i] > 0 {
		if err := o.await(t, m.all[i]); err != nil {
			return i, err
		}
	}
	o.asking.Lock()
	defer o.asking.Unlock()
	m.next = (i + 1) % len(m.all)
	m.generations[i]++
	return i, t.Record(m.all[i], s)
}

// Throttle counts commands that were enqueued on s, and waits while too many are in flight. Commands that a graph captures
// are in no queue of the device and do not count.
func (o *Order) Throttle(t cuda.Thread, s cuda.Stream, commands int) error {
	o.weight += commands
	if o.weight < throttleWeight {
		return nil
	}
	return o.full(t, s)
}

// full ends a stretch of commands on s with an event, after the host has waited for the one throttleEvents stretches before.
func (o *Order) full(t cuda.Thread, s cuda.Stream) error {
	o.weight = 0
	captured, _, err := Capture(t, s)
	if err != nil || captured {
		return err
	}
	_, err = o.put(t, &o.throttle, s)
	return err
}

// await blocks until an event has happened. After a failure it happens soon, for kernels and streams no longer wait. The watchdog hears
// since when it blocks: an operation before the event is not done for so long. The caller holds o.mu.
func (o *Order) await(t cuda.Thread, e cuda.Event) error {
	before, err := t.ExchangeCaptureMode(cuda.CaptureRelaxed)
	if err != nil {
		return err
	}
	done, err := t.EventDone(e)
	if !done && err == nil {
		o.room.queue.Store(int32(o.calls))
		o.room.since.Store(int64(time.Since(o.began)))
		for n := 0; !done && err == nil; {
			n = Pause(n)
			done, err = t.EventDone(e)
		}
		o.room.since.Store(0)
	}
	_, err2 := t.ExchangeCaptureMode(before)
	return cmp.Or(err, err2)
}

// How Pause lets others run.
const (
	yields    = 200              // looks before it sleeps
	slowYield = time.Millisecond // a yield as long as this is the last one
)

// Pause lets others run after the n-th look at something that changes soon, and returns the n of the next call. At first it yields.
// While other goroutines keep all processors busy, a yield can take a tenth of a second. A sleep takes less, so Pause goes on to sleep then.
func Pause(n int) (next int) {
	if n >= yields {
		time.Sleep(20 * time.Microsecond)
		return n + 1
	}
	began := time.Now()
	runtime.Gosched()
	if time.Since(began) > slowYield {
		return yields
	}
	return n + 1
}
