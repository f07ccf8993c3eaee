package staged

import (
	"context"
	"errors"
	"sync"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/internal/streamorder"
	"github.com/colligo-go/colligo/pg/backend"
)

// registration is memory that no rank maps. Closing it waits for the operations that use the memory, as closing the native
// backend's does.
type registration struct {
	b    *Backend
	once sync.Once
}

// Register implements backend.Registrar.
func (b *Backend) Register(context.Context, colligo.Tensor) (backend.Registration, error) {
	return &registration{b: b}, nil
}

// Close waits until the operations that the ranks have enqueued are done on all of them. All ranks call it together.
func (r *registration) Close() (err error) {
	r.once.Do(func() { err = r.b.settle() })
	return err
}

// settle waits until the device is quiet on all ranks.
func (b *Backend) settle() error {
	select {
	case <-b.Done(): // Close has waited for them
		return nil
	default:
	}
	err := streamorder.OnDevice(b.device, func(t cuda.Thread) error {
		for n := 0; b.Failure.Err() == nil && !b.Quiet(t); {
			n = streamorder.Pause(n)
		}
		b.QuietWithin(t, streamorder.Patience)
		return nil
	})
	if b.Failure.Err() != nil || b.size == 1 {
		return err
	}
	return errors.Join(err, backend.Barrier(context.Background(), b.group))
}
