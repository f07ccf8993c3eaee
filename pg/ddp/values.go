package ddp

import (
	"context"
	"fmt"

	"github.com/colligo-go/colligo"
)

// transferer returns the bucket's memory as one that the host can read and write.
func (b *Bucket) transferer(t colligo.Tensor) (Transferer, error) {
	m, ok := b.memory.(Transferer)
	if !ok {
		return nil, fmt.Errorf("%v is not on the CPU, and Options.Memory is no Transferer", t)
	}
	return m, nil
}

// read returns the elements of a contiguous tensor where the bucket is.
func (b *Bucket) read(ctx context.Context, t colligo.Tensor) ([]float64, error) {
	if err := known(t.DType()); err != nil || t.Device().Kind == colligo.CPU {
		return read(t), err
	}
	m, err := b.transferer(t)
	if err != nil {
		return nil, err
	}
	copied := make([]byte, t.Size())
	if err := m.Read(ctx, copied, t); err != nil {
		return nil, err
	}
	return read(colligo.Bytes(copied, t.DType())), nil
}

// write rounds values to the elements of a contiguous tensor where the bucket is.
func (b *Bucket) write(ctx context.Context, t colligo.Tensor, values []float64) error {
	if t.Device().Kind == colligo.CPU {
		write(t, values)
		return nil
	}
	m, err := b.transferer(t)
	if err != nil {
		return err
	}
	rounded := colligo.Bytes(make([]byte, t.Size()), t.DType())
	write(rounded, values)
	return m.Write(ctx, t, rounded.CPUBytes())
}

// convert rounds or widens the elements of a tensor to another one's type.
func (b *Bucket) convert(ctx context.Context, dst, src colligo.Tensor) error {
	values, err := b.read(ctx, src)
	if err != nil {
		return err
	}
	return b.write(ctx, dst, values)
}

// known refuses element types that read and write do not know.
func known(d colligo.DType) error {
	switch d {
	case colligo.Float16, colligo.BFloat16, colligo.Float32, colligo.Float64:
		return nil
	}
	return fmt.Errorf("%v is no type that this hook knows: float16, bfloat16, float32, float64", d)
}

// read returns the elements of a contiguous tensor on the CPU.
func read(t colligo.Tensor) []float64 {
	if t.Device().Kind != colligo.CPU {
		return nil
	}
	out := make([]float64, t.Len())
	switch t.DType() {
	case colligo.Float64:
		copy(out, view[float64](t))
	case colligo.Float32:
		for i, v := range view[float32](t) {
			out[i] = float64(v)
		}
	case colligo.Float16:
		for i, v := range view[uint16](t) {
			out[i] = float64(colligo.Float16ToFloat32(v))
		}
	case colligo.BFloat16:
		for i, v := range view[uint16](t) {
			out[i] = float64(colligo.BFloat16ToFloat32(v))
		}
	}
	return out
}

// write rounds values to the elements of a contiguous tensor on the CPU.
func write(t colligo.Tensor, values []float64) {
	switch t.DType() {
	case colligo.Float64:
		copy(view[float64](t), values)
	case colligo.Float32:
		to := view[float32](t)
		for i, v := range values {
			to[i] = float32(v)
		}
	case colligo.Float16:
		to := view[uint16](t)
		for i, v := range values {
			to[i] = colligo.Float16FromFloat32(float32(v))
		}
	case colligo.BFloat16:
		to := view[uint16](t)
		for i, v := range values {
			to[i] = colligo.BFloat16FromFloat32(float32(v))
		}
	}
}
