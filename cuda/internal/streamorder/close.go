package streamorder

import (
	"errors"
	"fmt"
	"time"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/pg/backend"
)

// Patience bounds the wait for a device whose kernels were told to stop.
const Patience = 5 * time.Second

// Farewell bounds how long a rank that closes waits for its operations to end, and for its peers to leave.
const Farewell = time.Second

// Refuse ends a backend that could not be opened on a device, and with it the group, for the peers wait for this rank. It returns the
// cause with the rank, and what else went wrong.
func Refuse(g backend.Host, b backend.Backend, on fmt.Stringer, cause error) error {
	err := fmt.Errorf("rank %d on %v: %w", g.Rank(), on, cause)
	g.Fail(err)
	b.Abort(err)
	return errors.Join(err, b.Close())
}

// Shut ends the watchdog and waits for the goroutines of Go. It reports false if the order was shut before.
func (o *Order) Shut() bool {
	o.mu.Lock()
	if o.closing {
		o.mu.Unlock()
		return false
	}
	o.asking.Lock()
	o.closing = true
	o.asking.Unlock()
	o.mu.Unlock()
	close(o.done)
	o.helpers.Wait()
	return true
}

// busy returns the streams on which operations can be: the backend's, and the callers' last ones.
func (o *Order) busy() []cuda.Stream {
	var all []cuda.Stream
	for _, l := range o.made {
		all = append(all, l.Stream)
	}
	for q := range o.tails {
		if o.tails[q].begun {
			all = append(all, o.tails[q].stream)
		}
	}
	return all
}

// Quiet reports whether no operation is on the device.
func (o *Order) Quiet(t cuda.Thread) bool {
	if !o.mu.TryLock() {
		return false // somebody enqueues
	}
	defer o.mu.Unlock()
	for _, s := range o.busy() {
		if done, err := t.StreamDone(s); !done && err == nil {
			return false
		}
	}
	return true
}

// QuietWithin reports whether all operations end in time.
func (o *Order) QuietWithin(t cuda.Thread, limit time.Duration) bool {
	for n, end := 0, time.Now().Add(limit); time.Now().Before(end); n++ {
		if o.Quiet(t) {
			return true
		}
		Pause(n)
	}
	return false
}

// Drain waits until nothing of the backend runs on the device. No operation waits for a peer any longer.
func (o *Order) Drain(t cuda.Thread) error {
	var errs []error
	for _, s := range o.busy() {
		errs = append(errs, Idle(t, s))
	}
	return errors.Join(errs...)
}

// Idle waits for a stream that no longer waits for a peer.
func Idle(t cuda.Thread, s cuda.Stream) error {
	for n, end := 0, time.Now().Add(Patience); ; n++ {
		done, err := t.StreamDone(s)
		if done || err != nil {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("a stream of %v is still busy after %v", t.Device, Patience)
		}
		Pause(n)
	}
}

// Free gives streams and events back.
func (o *Order) Free(t cuda.Thread) error {
	var errs []error
	for _, l := range o.made {
		errs = append(errs, t.DestroyStream(l.Stream), t.DestroyEvent(l.Event))
	}
	o.made = nil
	for _, e := range o.events() {
		if *e != 0 {
			errs = append(errs, t.DestroyEvent(*e))
		}
	}
	errs = append(errs, o.throttle.free(t), o.ends.free(t), o.timers.giveBack(t))
	errs = append(errs, o.freeMarks(t)...)
	return errors.Join(errs...)
}

// Brief shortens joined errors: a device that is lost fails every call with one result, of which the first tells enough.
func Brief(err error) error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return err
	}
	var kept []error
	seen, more := map[cuda.Result]bool{}, 0
	for _, e := range joined.Unwrap() {
		var r cuda.Result
		e = Brief(e)
		if errors.As(e, &r) && seen[r] {
			more++
			continue
		}
		seen[r] = r != cuda.Success
		kept = append(kept, e)
	}
	if more > 0 {
		kept = append(kept, fmt.Errorf("and %d more failures to give back, with the same results", more))
	}
	return errors.Join(kept...)
}
