package devmem

import (
	"context"
	"errors"
	"maps"
	"sync"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/internal/streamorder"
)

// readBytes is the pinned memory through which tensors are read, a multiple of every element's size.
const readBytes = 256 << 10

// Reader lets the host see the values of tensors on a device, and puts values there. It implements Read of backend.Reader, and
// backend.Stager's methods.
type Reader struct {
	device *cuda.Device
	order  *streamorder.Order
	check  *Checker // used with the order's lock held
	mu     sync.Mutex
	page   *cuda.Host
	over   *cuda.Host           // the page, after Close
	staged map[cuda.Pointer]int // bytes of memory that calls between Stage and Unstage have
	given  map[cuda.Pointer]int // and of memory that Unstage could not free yet
}

// NewReader pins the memory of a reader.
func NewReader(t cuda.Thread, o *streamorder.Order, c *Checker) (*Reader, error) {
	page, err := t.AllocHost(readBytes)
	if err != nil {
		return nil, err
	}
	return &Reader{device: t.Device, order: o, check: c, page: page, staged: map[cuda.Pointer]int{}, given: map[cuda.Pointer]int{}}, nil
}

// Read shows a tensor piece by piece until see returns false. It holds the caller until the device has come so far. On a
// stream that is captured it sees nothing: the values that a graph is to read are not there yet.
func (r *Reader) Read(ctx context.Context, tensor colligo.Tensor, see func(piece []byte) bool) error {
	t, err := r.device.Enter()
	if err != nil {
		return err
	}
	defer t.Leave()
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.order.Failure.Err(); err != nil {
		return err
	}
	r.order.Lock()
	err = r.check.Tensor("input", &tensor)
	r.order.Unlock()
	if err != nil {
		return err
	}
	s := streamorder.Of(ctx)
	if captured, _, err := streamorder.Capture(t, s); captured || err != nil {
		return err
	}
	return streamorder.Relaxed(t, func() error { return r.readOn(t, &tensor, s, see) })
}

func (r *Reader) readOn(t cuda.Thread, tensor *colligo.Tensor, s cuda.Stream, see func(piece []byte) bool) error {
	for at, left := Address(*tensor), tensor.Size(); left > 0; {
		n := min(left, readBytes)
		c := streamorder.On(t)
		c.Copy(r.page.Device, at, n, s)
		c.Synchronize(s)
		if c.Err != nil || !see(r.page.Bytes[:n]) {
			return c.Err
		}
		at, left = at+cuda.Pointer(n), left-n
	}
	return nil
}

// Close ends the reader when the last Read is through; r may be nil.
func (r *Reader) Close() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.page != nil {
		r.over, r.page = r.page, nil
	}
}

// Free gives back, after Close, the page and what is staged; r may be nil. It takes no lock: Close has ended all use of the reader.
func (r *Reader) Free(t cuda.Thread) error {
	if r == nil || r.over == nil {
		return nil
	}
	errs := []error{t.FreeHost(r.over)}
	maps.Copy(r.given, r.staged)
	errs = append(errs, r.freeGiven(t))
	r.over, r.staged = nil, nil
	return errors.Join(errs...)
}
