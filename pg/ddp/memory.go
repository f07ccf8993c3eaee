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

// Transferer is Memory whose elements the host can read and write. Compress and PowerSGD, which compute on the CPU, need it for
// gradients on a device.
type Transferer interface {
	Memory
	// Read copies a contiguous tensor to b, when everything is done that the context's stream had to do before.
	Read(ctx context.Context, b []byte, src colligo.Tensor) error
	// Write copies b to a contiguous tensor, before what the context's stream does next. The caller may use b again at once.
	Write(ctx context.Context, dst colligo.Tensor, b []byte) error
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
