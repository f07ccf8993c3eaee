package peer

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
)

// watch is the watchdog's view of a queue: one event that is recorded after the last of its operations and awaited.
type watch struct {
	event cuda.Event
	open  bool
	since time.Time
	ran   uint64 // operations at the last record
}

// limit returns how long an operation may stay unfinished.
func (b *backend) limit() time.Duration {
	if b.options.Timeout > 0 {
		return b.options.Timeout
	}
	return b.group.Timeout()
}

// startWatch looks at the device from time to time, for the sake of operations that nobody waits for on the host.
func (b *backend) startWatch() {
	tick := min(max(b.limit()/16, 5*time.Millisecond), time.Second)
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

// look records and asks the watchdog's events. It returns an error when operations take too long, when a message is not
// the one that is received, or when the device is broken.
func (b *backend) look() error {
	t, err := b.device.Enter()
	if err != nil {
		return err
	}
	defer t.Leave()
	err = relaxed(t, func() error { return b.lookAtAll(t) })
	if disturbed(err) {
		return nil
	}
	return err
}

// suspicion is how long an operation may stay unfinished before the words of messages are compared.
const suspicion = 2 * time.Second

func (b *backend) lookAtAll(t cuda.Thread) error {
	if b.staging != nil {
		return b.staging.look(b, t)
	}
	if err := b.strayed(); err != nil {
		return err
	}
	for q := range numQueues {
		open, err := b.lookAt(t, q)
		if err != nil {
			return err
		}
		if b.failure.get() != nil {
			continue
		}
		if open > b.limit() {
			return b.timedOut(t, q)
		}
		if q == receives && open > min(suspicion, b.limit()/2) {
			if err := b.mismatch(b.readWords(t)); err != nil {
				return err
			}
		}
	}
	return nil
}

// disturbed reports whether a call failed only because a capture was going on, or had taken the event with it.
func disturbed(err error) bool {
	var r cuda.Result
	return errors.As(err, &r) && r >= cuda.StreamCaptureUnsupported && r <= cuda.StreamCaptureUnsupported+8
}

// lookAt records and asks the event of one queue. It returns how long its operations have been unfinished.
func (b *backend) lookAt(t cuda.Thread, q queue) (open time.Duration, err error) {
	w := &b.watches[q]
	if !b.mu.TryLock() { // somebody enqueues, and may wait for a mark
		if w.open {
			open = time.Since(w.since)
		}
		return open, nil
	}
	defer b.mu.Unlock()
	if w.open {
		done, err := t.EventDone(w.event)
		if !done || err != nil {
			return time.Since(w.since), err
		}
		w.open = false
		b.settle(q)
	}
	if w.ran == b.progress[q].ran {
		return 0, nil
	}
	if apart, err := recordApart(t, w.event, b.streamOrders[q].stream); !apart || err != nil {
		return 0, err
	}
	w.open, w.since, w.ran = true, time.Now(), b.progress[q].ran
	b.remember(q)
	return 0, nil
}

// timedOut stops the kernels and says which ranks they waited for.
func (b *backend) timedOut(t cuda.Thread, q queue) error {
	words := b.readWords(t) // before the stop makes all of them alike
	b.setAbort()
	late := b.lateInKernels()
	if late == nil {
		if err := b.mismatch(words); err != nil && q == receives {
			return err
		}
		late = b.lateInStreams(q, words)
	}
	who := "which peer is late, the device does not tell"
	if late != nil {
		who = "it waits for rank " + joinRanks(late)
	}
	return fmt.Errorf("the device of rank %d is not done after %v: %s: %w", b.rank, b.limit(), who, colligo.ErrTimeout)
}

// lateInKernels returns the ranks that kernels waited for when they were stopped: they tell so themselves.
func (b *backend) lateInKernels() (late []int) {
	for n := 0; n < 1000 && late == nil; n++ {
		pause(n)
		for q := range b.size {
			if atomic.LoadUint32(b.word(1+q)) != 0 {
				late = append(late, q)
			}
		}
	}
	return late
}

func joinRanks(all []int) string {
	s := ""
	for i, q := range slices.Compact(all) {
		if i > 0 {
			s += " and rank "
		}
		s += fmt.Sprint(q)
	}
	return s
}
