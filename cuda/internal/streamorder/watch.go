package streamorder

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/colligo-go/colligo/cuda"
)

// watch is the watchdog's view of a queue: one event that is recorded after the last of its operations and awaited.
type watch struct {
	event cuda.Event
	open  bool
	since time.Time
	ran   uint64 // operations at the last record
}

// room is a call that waits in the throttle, as the watchdog sees it.
type room struct {
	queue atomic.Int32
	since atomic.Int64 // from Order.began on; 0 if no call waits
}

// Watch calls look from time to time on a thread of the device, until it returns an error or Shut is called. It is for the
// sake of operations that nobody waits for on the host. fail gets the error. From now on other groups of the process mind what this one
// has on the device.
func (o *Order) Watch(limit time.Duration, look func(t cuda.Thread) error, fail func(error)) {
	o.Tenant.Enter()
	tick := min(max(limit/16, 5*time.Millisecond), time.Second)
	o.helpers.Go(func() {
		every := time.NewTicker(tick)
		defer every.Stop()
		for {
			select {
			case <-o.done:
				return
			case <-every.C:
			}
			if err := OnDevice(o.device, look); err != nil && !disturbed(err) {
				fail(err)
				return
			}
		}
	})
}

// disturbed reports whether a call failed only because a capture was going on, or had taken the event with it.
func disturbed(err error) bool {
	var r cuda.Result
	return errors.As(err, &r) && r >= cuda.StreamCaptureUnsupported && r <= cuda.StreamCaptureUnsupported+8
}

// CheckTimeout looks at all queues. It returns the error that late makes of the first one whose operations have been unfinished for longer
// than a limit. After a failure none is late.
func (o *Order) CheckTimeout(t cuda.Thread, limit time.Duration, late func(q Queue) error) error {
	for q := range NumQueues {
		open, err := o.LookAt(t, q)
		if err != nil {
			return err
		}
		if o.Failure.Err() == nil && open > limit {
			return late(q)
		}
	}
	return nil
}

// LookAt records and asks the watchdog's event of one queue. It returns how long the queue's operations have been
// unfinished.
func (o *Order) LookAt(t cuda.Thread, q Queue) (open time.Duration, err error) {
	w := &o.watches[q]
	if !o.mu.TryLock() {
		return o.lookBeside(t, q)
	}
	defer o.mu.Unlock()
	if w.open {
		done, err := t.EventDone(w.event)
		if !done || err != nil {
			return time.Since(w.since), err
		}
		w.open = false
		if o.Settled != nil {
			o.Settled(q)
		}
	}
	if w.ran == o.progress[q].ran {
		return 0, nil
	}
	if apart, err := recordApart(t, w.event, o.tails[q].stream); !apart || err != nil {
		return 0, err
	}
	w.open, w.since, w.ran = true, time.Now(), o.progress[q].ran
	if o.Watched != nil {
		o.Watched(q)
	}
	return 0, nil
}

// lookBeside is LookAt while a call keeps the order's lock. A call that waits for room is not in the driver, so the event can be asked. Any
// other call may be there with the driver's lock.
func (o *Order) lookBeside(t cuda.Thread, q Queue) (open time.Duration, err error) {
	w := &o.watches[q]
	since := time.Duration(o.room.since.Load())
	if w.open && since > 0 {
		done, err := t.EventDone(w.event)
		if !done || err != nil {
			return time.Since(w.since), err
		}
		w.since = time.Now() // what came after the event counts from here, until the lock is free
	}
	if since > 0 && Queue(o.room.queue.Load()) == q {
		return time.Since(o.began) - since, nil
	}
	if w.open {
		open = time.Since(w.since)
	}
	return open, nil
}
