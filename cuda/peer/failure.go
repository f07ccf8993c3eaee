package peer

import (
	"errors"
	"fmt"
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
	switch {
	case !b.failure.first.CompareAndSwap(nil, &cause) || b.args == nil:
	case b.peaceful():
		b.helpers.Go(b.hurry)
	default:
		b.setAbort()
		b.helpers.Go(b.release)
	}
}

// hurry ends all waiting on the device, too, if somebody enqueues and goes on to: he may wait for a mark that no peer lets
// happen any more, and Close is called when he is through.
func (b *backend) hurry() {
	if b.lockWithin(farewell) {
		b.mu.Unlock()
		return
	}
	b.setAbort()
	b.release()
}

// peaceful reports whether nothing has failed, though the group may be closed.
func (b *backend) peaceful() bool {
	err := b.failure.get()
	return err == nil || err == colligo.ErrClosed
}

// word returns a word that kernels look at, or write.
func (b *backend) word(i int) *uint32 { return (*uint32)(unsafe.Pointer(&b.abort.Bytes[4*i])) }

func (b *backend) setAbort() { atomic.StoreUint32(b.word(0), 1) }

// release sets the flags that streams wait for until nothing waits. No sender and no receiver is misled: after a failure
// no result counts.
func (b *backend) release() {
	if b.staging != nil {
		b.staging.release(first(b.failure.get(), colligo.ErrClosed))
		return
	}
	_ = b.onDevice(b.releaseOn) // where it fails the device is lost, and with it whatever waited there
}

// releaseOn goes on, after a while now and then, for a stream may come to what waits only when it is through with work of the
// caller's, and resets the flags that it has waited for.
func (b *backend) releaseOn(t cuda.Thread) error {
	words, n := b.heap+cuda.Pointer(b.layout.words), b.layout.numWords()+b.layout.numTags()
	for limit := time.Now().Add(patience); !b.quiet(t); {
		if time.Now().After(limit) {
			select {
			case <-b.done:
				return nil
			case <-time.After(10 * time.Millisecond):
			}
		}
		if err := first(t.Set32(words, mostCode, n, b.streams.setup.stream), t.Synchronize(b.streams.setup.stream)); err != nil {
			return err
		}
	}
	return nil
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

// brief shortens joined errors: a device that is lost fails every call with one result, of which the first tells enough.
func brief(err error) error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return err
	}
	var kept []error
	seen, more := map[cuda.Result]bool{}, 0
	for _, e := range joined.Unwrap() {
		var r cuda.Result
		e = brief(e)
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
