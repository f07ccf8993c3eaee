package ddp

import (
	"context"
	"fmt"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/kernels"
)

// Memory is what a reducer needs of the place where gradients are. That of the CPU is built in.
type Memory interface {
	// Alloc returns a contiguous tensor of zeros that lives as long as the reducer.
	Alloc(d colligo.Device, t colligo.DType, count int) (colligo.Tensor, error)
	// Copy copies elements in row-major order, ordered with the context's stream.
	Copy(ctx context.Context, dst, src colligo.Tensor) error
}

// host is the CPU's memory.
type host struct{}

func (host) Alloc(d colligo.Device, t colligo.DType, count int) (colligo.Tensor, error) {
	if d.Kind != colligo.CPU {
		return colligo.Tensor{}, fmt.Errorf("gradients on %v need Options.Memory", d)
	}
	return colligo.Bytes(make([]byte, count*t.Size()), t), nil
}

func (host) Copy(_ context.Context, dst, src colligo.Tensor) error {
	kernels.Copy(dst, src)
	return nil
}
