package peer

import (
	"context"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/pg"
)

var _ pg.Reader = (*backend)(nil)

// readBytes is the pinned memory through which tensors are read, a multiple of every element's size.
const readBytes = 256 << 10

// Read implements pg.Reader. It holds the caller until the device has come so far.
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
	for at, left := addressOf(tensor), tensor.Size(); left > 0 && err == nil; {
		n := min(left, readBytes)
		if err = first(t.Copy(b.page.Device, at, n, s), t.Synchronize(s)); err == nil && !see(b.page.Bytes[:n]) {
			break
		}
		at, left = at+cuda.Pointer(n), left-n
	}
	return err
}
