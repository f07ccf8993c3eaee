package streamorder

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/internal/tenants"
	"github.com/colligo-go/colligo/pg/backend"
)

// Patience bounds the wait for a device whose kernels were told to stop.
const Patience = 5 * time.Second

// Farewell bounds how long a rank that closes waits for its operations to end, and at a peaceful end for its peers to leave.
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
func (o *Order) busy() (all []cuda.Stream) {
	for _, l := range o.made {
		all = append(all, l.Stream)
	}
	return append(all, o.callers()...)
}

// callers returns the last streams of callers.
func (o *Order) callers() (all []cuda.Stream) {
	for q := range o.tails {
		if o.tails[q].begun {
			all = append(all, o.tails[q].stream)
		}
	}
	return all
}

// Quiet reports whether no operation is on the device.
func (o *Order) Quiet(t cuda.Thread) bool {
	if !o.Hold() {
		return false
	}
	defer o.Release()
	return !o.Pending(t)
}

// Hold implements tenants.Holder.
func (o *Order) Hold() bool { return o.mu.TryLock() }

// Release implements tenants.Holder.
func (o *Order) Release() { o.mu.Unlock() }

// Pending implements tenants.Holder.
func (o *Order) Pending(t cuda.Thread) bool {
	for _, e := range o.late {
		if done, err := t.EventDone(e); !done && err == nil {
			return true
		}
	}
	return working(t, o.busy())
}

// working reports whether something is on a stream. A stream that is captured is not asked, for that would end the capture.
func working(t cuda.Thread, streams []cuda.Stream) bool {
	for _, s := range streams {
		if captured, _, err := Capture(t, s); captured || err != nil {
			continue
		}
		if done, err := t.StreamDone(s); !done && err == nil {
			return true
		}
	}
	return false
}

// QuietWithin reports whether all operations end in time.
func (o *Order) QuietWithin(t cuda.Thread, limit time.Duration) bool {
	for n, end := 0, time.Now().Add(limit); time.Now().Before(end); {
		if o.Quiet(t) {
			return true
		}
		n = Pause(n)
	}
	return false
}

// Drain waits until nothing of the backend runs on the device, after Shut. No operation waits for a peer any longer. The callers may destroy
// their streams when Close returns, so the order forgets those.
func (o *Order) Drain(t cuda.Thread) error {
	var errs []error
	for _, s := range o.busy() {
		errs = append(errs, Idle(t, s))
	}
	if o.LockWithin(Farewell) {
		errs = append(errs, o.part(t))
		o.Unlock()
	}
	return errors.Join(errs...)
}

// part forgets the callers' streams. An event takes the place of one that is still busy.
func (o *Order) part(t cuda.Thread) error {
	var errs []error
	for q := range o.tails {
		w := &o.tails[q]
		if w.begun && working(t, []cuda.Stream{w.stream}) {
			e, err := t.NewEvent(false)
			if err == nil {
				o.late, err = append(o.late, e), t.Record(e, w.stream)
			}
			errs = append(errs, err)
		}
		w.begun = false
	}
	return errors.Join(errs...)
}

// Idle waits for a stream that no longer waits for a peer.
func Idle(t cuda.Thread, s cuda.Stream) error {
	for n, end := 0, time.Now().Add(Patience); ; {
		done, err := t.StreamDone(s)
		if done || err != nil {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("a stream of %v is still busy after %v", t.Device, Patience)
		}
		n = Pause(n)
	}
}

// Free gives streams and events back.
func (o *Order) Free(t cuda.Thread) error {
	var errs []error
	for _, l := range o.made {
		errs = append(errs, t.DestroyStream(l.Stream), t.DestroyEvent(l.Event))
	}
	for _, e := range o.late {
		errs = append(errs, t.DestroyEvent(e))
	}
	o.made, o.late = nil, nil
	for _, e := range o.events() {
		if *e != 0 {
			errs = append(errs, t.DestroyEvent(*e))
		}
	}
	errs = append(errs, o.throttle.free(t), o.ends.free(t), o.timers.giveBack(t))
	errs = append(errs, o.freeMarks(t)...)
	return errors.Join(errs...)
}

// GiveBack calls free on the device when no group of the process has anything there, and closes the device. Where that lasts, a goroutine
// goes on to try, and its error is logged.
func (o *Order) GiveBack(free func(t cuda.Thread) error, log *slog.Logger) error {
	try := func(limit time.Duration) (done bool, err error) {
		err = OnDevice(o.device, func(t cuda.Thread) (err error) {
			done, err = o.Tenant.Within(t, limit, func() error { return free(t) })
			return err
		})
		return done || err != nil, err
	}
	leave := func(err error) error {
		o.Tenant.Close()
		return errors.Join(err, o.device.Close())
	}
	done, err := try(tenants.Limit)
	if done {
		return leave(err)
	}
	go func() {
		for !done {
			time.Sleep(tenants.Limit / 10)
			done, err = try(0)
		}
		if err := leave(err); err != nil {
			log.Warn("memory of a closed group was not given back", "rank", o.rank, "device", o.device, "error", err)
		}
	}()
	return nil
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
