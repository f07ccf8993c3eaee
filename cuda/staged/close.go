package staged

import (
	"cmp"
	"errors"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/internal/streamorder"
)

// Abort ends all waiting on the device. After a peaceful end of the group Close lets pending operations end first. Abort does
// not block, for the caller may be the goroutine that has to carry on.
func (b *Backend) Abort(cause error) {
	switch {
	case !b.Failure.Set(cause) || !b.opened:
	case b.Failure.Peaceful():
		b.Go(b.hurry)
	default:
		b.Failure.Raise()
		b.Go(b.release)
	}
}

// hurry ends all waiting after a peaceful end, too, if a goroutine enqueues and goes on to. It may wait for the throttle,
// which no peer relieves any more, and Close is called when it is through.
func (b *Backend) hurry() {
	if b.LockWithin(streamorder.Farewell) {
		b.Unlock()
		return
	}
	b.Failure.Raise()
	b.release()
}

// release ends all waiting of streams for the CPU. Operations on the CPU fail.
func (b *Backend) release() {
	b.once.Do(func() { close(b.over) })
	if b.dup != nil {
		b.dup.Fail(cmp.Or(b.Failure.Err(), colligo.ErrClosed))
	}
	b.workers.Wait()
	for _, l := range b.pipelines {
		l.release()
	}
}

// Close ends pending operations and gives everything back. Operations get some time to end; after a failure none waits.
func (b *Backend) Close() error {
	if !b.Shut() {
		return nil
	}
	settle := streamorder.OnDevice(b.device, func(t cuda.Thread) error {
		if b.opened && !b.QuietWithin(t, streamorder.Farewell) {
			b.Failure.Raise()
			b.release()
		}
		err := b.Drain(t)
		if !b.Failure.Peaceful() {
			b.Tenant.Await(t) // it has not joined: the CPU releases the streams of this group's ranks, and calls no driver for that
		}
		return err
	})
	b.Reader.Close()
	leave := b.leave()
	return streamorder.Brief(errors.Join(settle, leave, b.GiveBack(b.free, b.group.Log())))
}

// leave stops the workers and leaves the duplicated group.
func (b *Backend) leave() (err error) {
	b.once.Do(func() { close(b.over) })
	if b.dup != nil {
		err = b.dup.Close()
	}
	b.workers.Wait()
	return err
}

// free gives back memory, streams and events.
func (b *Backend) free(t cuda.Thread) error {
	errs := []error{b.Reader.Free(t)}
	for _, l := range b.pipelines {
		if l != nil {
			errs = append(errs, l.free(t))
		}
	}
	if b.spare != 0 {
		errs = append(errs, t.Free(b.spare))
	}
	if b.host != nil {
		errs = append(errs, t.FreeHost(b.host))
	}
	return errors.Join(append(errs, b.Failure.Free(t), b.Order.Free(t))...)
}
