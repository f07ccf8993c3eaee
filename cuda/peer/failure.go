package peer

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
)

// failure is the first error of the group.
type failure struct{ first atomic.Pointer[error] }

func (f *failure) get() error {
	if p := f.first.Load(); p != nil {
		return *p
	}
	return nil
}

// Abort ends all waiting on the device, unless the group was closed in peace: then Close lets what is pending end first.
// It does not block, for the caller may be the one who has to carry on.
func (b *backend) Abort(cause error) {
	if !b.failure.first.CompareAndSwap(nil, &cause) || b.args == nil || b.peaceful() {
		return
	}
	b.setStop()
	b.helpers.Go(b.release)
}

// peaceful reports whether nothing has failed, though the group may be closed.
func (b *backend) peaceful() bool {
	err := b.failure.get()
	return err == nil || err == colligo.ErrClosed
}

// word returns a word that kernels look at, or write.
func (b *backend) word(i int) *uint32 { return (*uint32)(unsafe.Pointer(&b.stop.Bytes[4*i])) }

func (b *backend) stopped() bool { return atomic.LoadUint32(b.word(0)) != 0 }

func (b *backend) setStop() { atomic.StoreUint32(b.word(0), 1) }

// release sets the flags that streams wait for until nothing waits. No sender and no receiver is misled: after a failure
// no result counts.
func (b *backend) release() {
	t, err := b.device.Enter()
	if err != nil {
		return // the device is lost, and with it whatever waited there
	}
	defer t.Leave()
	if _, err := t.ExchangeCaptureMode(cuda.CaptureRelaxed); err != nil {
		return
	}
	words, n := b.heap+cuda.Pointer(b.layout.words), b.layout.numWords()
	for limit := time.Now().Add(patience); time.Now().Before(limit) && !b.quiet(t); {
		if t.Set32(words, 1, n, b.streams.setup.stream) != nil || t.Synchronize(b.streams.setup.stream) != nil {
			return // as above
		}
	}
}

// quiet reports whether no operation is on the device.
func (b *backend) quiet(t cuda.Thread) bool {
	if !b.mu.TryLock() {
		return false // somebody enqueues
	}
	defer b.mu.Unlock()
	for _, s := range b.busyStreams() {
		if done, err := t.StreamDone(s); !done && err == nil {
			return false
		}
	}
	return true
}

// watch is the watchdog's view of the operations: one event that is recorded after the last of them and awaited.
type watch struct {
	event cuda.Event
	open  bool
	since time.Time
	ops   uint64 // at the last record
}

// startWatch looks at the device from time to time, for the sake of operations that nobody waits for on the host.
func (b *backend) startWatch() {
	tick := min(max(b.options.Timeout/16, 5*time.Millisecond), time.Second)
	b.helpers.Go(func() {
		every := time.NewTicker(tick)
		defer every.Stop()
		for {
			select {
			case <-b.done:
				return
			case <-every.C:
			}
			if err := b.look(); err != nil {
				b.group.Fail(err)
				return
			}
		}
	})
}

// look records and asks the watchdog's event. It returns an error when operations take too long or the device is broken.
func (b *backend) look() error {
	t, err := b.device.Enter()
	if err != nil {
		return err
	}
	defer t.Leave()
	before, err := t.ExchangeCaptureMode(cuda.CaptureRelaxed)
	if err != nil {
		return err
	}
	if err := b.group.Err(); err != nil {
		b.Abort(err) // the group failed while the backend was opened
	}
	late, err := b.lookNow(t)
	if _, err2 := t.ExchangeCaptureMode(before); err == nil {
		err = err2
	}
	if disturbed(err) {
		return nil
	}
	if late && err == nil && b.failure.get() == nil {
		err = b.timedOut()
	}
	return err
}

// disturbed reports whether a call failed only because a capture was going on, or had taken the event with it.
func disturbed(err error) bool {
	var r cuda.Result
	return errors.As(err, &r) && r >= cuda.StreamCaptureUnsupported && r <= cuda.StreamCaptureUnsupported+8
}

func (b *backend) lookNow(t cuda.Thread) (late bool, err error) {
	if !b.mu.TryLock() { // somebody enqueues, and may wait for a mark
		return b.watch.open && time.Since(b.watch.since) > b.options.Timeout, nil
	}
	defer b.mu.Unlock()
	w := &b.watch
	if w.open {
		done, err := t.EventDone(w.event)
		if !done || err != nil {
			return time.Since(w.since) > b.options.Timeout, err
		}
		w.open = false
	}
	if w.ops == b.ops {
		return false, nil
	}
	if captured, _, err := capture(t, b.last); captured || err != nil {
		return false, err
	}
	w.open, w.since, w.ops = true, time.Now(), b.ops
	return false, t.Record(w.event, b.last)
}

// timedOut stops the kernels and says which ranks they waited for.
func (b *backend) timedOut() error {
	b.setStop()
	var missing []string
	for n := 0; n < 1000 && missing == nil; n++ {
		pause(n)
		for q := range b.size {
			if atomic.LoadUint32(b.word(1+q)) != 0 {
				missing = append(missing, fmt.Sprint(q))
			}
		}
	}
	who := "which peer is late, the device does not tell"
	if missing != nil {
		who = "it waits for rank " + strings.Join(missing, " and rank ")
	}
	return fmt.Errorf("the device of rank %d is not done after %v: %s: %w", b.rank, b.options.Timeout, who, colligo.ErrTimeout)
}
