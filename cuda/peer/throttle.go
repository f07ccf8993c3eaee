package peer

import (
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
	openEnds       = 64 // asynchronous operations in flight
)

// eventRing are events that take turns. One is recorded again only after it has happened; its generation counts the records.
type eventRing struct {
	events      []cuda.Event
	generations []uint64
	next        int
}

func (m *eventRing) make(t cuda.Thread, n int) error {
	m.events, m.generations = make([]cuda.Event, n), make([]uint64, n)
	for i := range m.events {
		var err error
		if m.events[i], err = t.NewEvent(false); err != nil {
			return err
		}
	}
	return nil
}

func (m *eventRing) free(t cuda.Thread) error {
	var errs []error
	for _, e := range m.events {
		if e != 0 {
			errs = append(errs, t.DestroyEvent(e))
		}
	}
	return errors.Join(errs...)
}

// put records the next mark on s, after the host has waited for it if it is still open.
func (b *backend) put(t cuda.Thread, m *eventRing, s cuda.Stream) (slot int, err error) {
	i := m.next
	if m.generations[i] > 0 {
		if err := b.await(t, m.events[i]); err != nil {
			return i, err
		}
	}
	b.asking.Lock()
	defer b.asking.Unlock()
	m.next = (i + 1) % len(m.events)
	m.generations[i]++
	return i, t.Record(m.events[i], s)
}

// weigh counts commands that were enqueued on s. What a graph captures is in no queue.
func (b *backend) weigh(t cuda.Thread, s cuda.Stream, commands int) error {
	b.weight += commands
	if b.weight < throttleWeight {
		return nil
	}
	b.weight = 0
	captured, _, err := capture(t, s)
	if err != nil || captured {
		return err
	}
	_, err = b.put(t, &b.throttle, s)
	return err
}

// await blocks until an event has happened. After a failure it happens soon, for kernels and streams no longer wait.
func (b *backend) await(t cuda.Thread, e cuda.Event) error {
	before, err := t.ExchangeCaptureMode(cuda.CaptureRelaxed)
	if err != nil {
		return err
	}
	done, err := t.EventDone(e)
	for n := 0; !done && err == nil; n++ {
		pause(n)
		done, err = t.EventDone(e)
	}
	_, err2 := t.ExchangeCaptureMode(before)
	return first(err, err2)
}

// pause lets others run before the n-th look at something that changes soon.
func pause(n int) {
	if n < 200 {
		runtime.Gosched()
		return
	}
	time.Sleep(20 * time.Microsecond)
}
