package peer

import (
	"context"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	seam "github.com/colligo-go/colligo/pg/backend"
)

var _ seam.Reader = (*backend)(nil)

// readBytes is the pinned memory through which tensors are read, a multiple of every element's size.
const readBytes = 256 << 10

// Read implements backend.Reader. It holds the caller until the device has come so far. On a stream that is captured it sees
// nothing: what a graph is to read is not there yet.
func (b *backend) Read(ctx context.Context, tensor colligo.Tensor, see func(piece []byte) bool) error {
	t, err := b.device.Enter()
	if err != nil {
		return err
	}
	defer t.Leave()
	b.reading.Lock()
	defer b.reading.Unlock()
	if err := b.failure.get(); err != nil {
		return err
	}
	b.mu.Lock()
	err = b.checkTensor("input", &tensor)
	b.mu.Unlock()
	s := streamOf(ctx)
	captured, _, err2 := capture(t, s)
	if err = first(err, err2); captured || err != nil {
		return err
	}
	return relaxed(t, func() error { return b.readOn(t, &tensor, s, see) })
}

func (b *backend) readOn(t cuda.Thread, tensor *colligo.Tensor, s cuda.Stream, see func(piece []byte) bool) error {
	for at, left := addressOf(*tensor), tensor.Size(); left > 0; {
		n := min(left, readBytes)
		if err := first(t.Copy(b.page.Device, at, n, s), t.Synchronize(s)); err != nil || !see(b.page.Bytes[:n]) {
			return err
		}
		at, left = at+cuda.Pointer(n), left-n
	}
	return nil
}
