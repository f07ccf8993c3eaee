package devmem

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/internal/streamorder"
)

// errCaptured refuses to stage while a graph captures the stream: the host takes part in it.
var errCaptured = errors.New("the stream is captured by a graph")

// Stage takes memory of the device and copies bytes there, through the reader's pinned memory. Unstage gives it back. It
// implements Stage of backend.Stager.
func (r *Reader) Stage(ctx context.Context, b []byte, d colligo.DType) (x colligo.Tensor, err error) {
	err = r.staging(ctx, func(t cuda.Thread, s cuda.Stream) error {
		at, err := r.take(t, max(len(b), 1))
		if err != nil {
			return err
		}
		x = colligo.OnDevice(r.device.Place(), uintptr(at), len(b)/d.Size(), d)
		for to, rest := at, b; len(rest) > 0; {
			n := copy(r.page.Bytes, rest)
			c := streamorder.On(t)
			c.Copy(to, r.page.Device, n, s)
			if c.Synchronize(s); c.Err != nil {
				return errors.Join(c.Err, r.give(t, at))
			}
			to, rest = to+cuda.Pointer(n), rest[n:]
		}
		return nil
	})
	return x, err
}

// Unstage waits for the caller's stream, copies the memory to b unless that is nil, and gives the memory back. It implements
// Unstage of backend.Stager.
func (r *Reader) Unstage(ctx context.Context, x colligo.Tensor, b []byte) error {
	return r.staging(ctx, func(t cuda.Thread, s cuda.Stream) error {
		err := t.Synchronize(s)
		if err == nil && b != nil {
			err = r.readOn(t, &x, s, func(piece []byte) bool {
				b = b[copy(b, piece):]
				return true
			})
		}
		return errors.Join(err, r.give(t, Address(x)))
	})
}

// take returns memory of some size, of what Unstage could not free if something there is large enough.
func (r *Reader) take(t cuda.Thread, bytes int) (at cuda.Pointer, err error) {
	size := bytes
	for given, n := range r.given {
		if n >= bytes && (at == 0 || n < size) {
			at, size = given, n
		}
	}
	if at == 0 {
		if at, err = t.Alloc(bytes); err != nil {
			return 0, err
		}
	}
	delete(r.given, at)
	r.staged[at] = size
	return at, nil
}

// shortly bounds how long give waits for other ranks that share the device.
const shortly = 10 * time.Millisecond

// give frees memory. The driver waits for the device then, and another rank may have a kernel there that waits for this rank's next
// operation. So memory is freed when no other rank of the process has anything on the device. Where that lasts, a later call frees the memory
// or takes it, or Free does.
func (r *Reader) give(t cuda.Thread, at cuda.Pointer) error {
	r.given[at] = r.staged[at]
	delete(r.staged, at)
	r.order.Lock()
	defer r.order.Unlock()
	x := r.order.Tenant
	return x.Lend(func() error {
		_, err := x.Within(t, shortly, func() error { return r.freeGiven(t) })
		return err
	})
}

// freeGiven frees what calls have given back.
func (r *Reader) freeGiven(t cuda.Thread) error {
	var errs []error
	for at := range r.given {
		errs = append(errs, t.Free(at))
	}
	clear(r.given)
	return errors.Join(errs...)
}

// staging calls f on a thread of the device, with the caller's stream and the reader's page.
func (r *Reader) staging(ctx context.Context, f func(t cuda.Thread, s cuda.Stream) error) error {
	t, err := r.device.Enter()
	if err != nil {
		return err
	}
	defer t.Leave()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.page == nil {
		return fmt.Errorf("staging: %w", colligo.ErrClosed)
	}
	s := streamorder.Of(ctx)
	captured, _, err := streamorder.Capture(t, s)
	if captured {
		err = errCaptured
	}
	if err != nil {
		return err
	}
	return streamorder.Relaxed(t, func() error { return f(t, s) })
}
