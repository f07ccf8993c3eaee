package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/pg"
)

// rank is this process in a group, with the device memory of the call at hand.
type rank struct {
	*pg.Group
	ctx    context.Context
	device *cuda.Device
	bound  bool // to the device
	memory []cuda.Pointer
}

// on calls f on a thread of the device.
func (r *rank) on(f func(t cuda.Thread) error) error {
	t, err := r.device.Enter()
	if err != nil {
		return err
	}
	defer t.Leave()
	return f(t)
}

// free gives the call's memory back, when the device is done with it.
func (r *rank) free() error {
	return r.on(func(t cuda.Thread) error {
		err := t.Synchronize(0)
		for _, p := range r.memory {
			err = errors.Join(err, t.Free(p))
		}
		r.memory = nil
		return err
	})
}

// alloc returns a tensor on the device with some elements, or with bytes of another kind if there are none.
func (r *rank) alloc(n int, d colligo.DType, from []byte) (x colligo.Tensor, err error) {
	err = r.on(func(t cuda.Thread) error {
		at, err := t.Alloc(max(n*d.Size(), 16))
		if err != nil {
			return err
		}
		r.memory = append(r.memory, at)
		x = colligo.OnDevice(r.device.Place(), uintptr(at), n, d)
		if from == nil {
			return t.Set8(at, 0xee, max(n*d.Size(), 16), 0)
		}
		if len(from) == 0 {
			return nil
		}
		page, err := t.AllocHost(len(from))
		if err != nil {
			return err
		}
		copy(page.Bytes, from)
		return errors.Join(t.Copy(at, page.Device, len(from), 0), t.Synchronize(0), t.FreeHost(page))
	})
	return x, err
}

// bytes returns the elements of a tensor on the device, after what its default stream has to do.
func (r *rank) bytes(x colligo.Tensor) (b []byte, err error) {
	if x.Size() == 0 {
		return nil, nil
	}
	err = r.on(func(t cuda.Thread) error {
		page, err := t.AllocHost(x.Size())
		if err != nil {
			return err
		}
		err = errors.Join(t.Copy(page.Device, cuda.Pointer(x.Addr()), x.Size(), 0), t.Synchronize(0))
		b = bytes.Clone(page.Bytes[:x.Size()])
		return errors.Join(err, t.FreeHost(page))
	})
	return b, err
}

// numbers are a rank's input of a call: small whole numbers, so that every sum is exact in every type.
func numbers(k, rank, n int, op string) []float64 {
	v := make([]float64, n)
	for i := range v {
		x := (i*7 + rank*13 + k*5) % 11
		if op == "product" {
			x = x%2 + 1
		}
		v[i] = float64(x)
	}
	return v
}

// fold reduces the inputs of some ranks.
func fold(k int, ranks []int, n int, op string) []float64 {
	sum := numbers(k, ranks[0], n, op)
	for _, r := range ranks[1:] {
		for i, v := range numbers(k, r, n, op) {
			switch op {
			case "product":
				sum[i] *= v
			case "min":
				sum[i] = min(sum[i], v)
			case "max":
				sum[i] = max(sum[i], v)
			default:
				sum[i] += v
			}
		}
	}
	if op == "avg" {
		for i := range sum {
			sum[i] /= float64(len(ranks))
		}
	}
	return sum
}

// encode returns numbers as elements of a type.
func encode(d colligo.DType, v []float64) []byte {
	b := make([]byte, 0, len(v)*d.Size())
	for _, x := range v {
		switch d {
		case colligo.Float32:
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(x)))
		case colligo.BFloat16:
			b = binary.LittleEndian.AppendUint16(b, colligo.BFloat16FromFloat32(float32(x)))
		case colligo.Float16:
			b = binary.LittleEndian.AppendUint16(b, colligo.Float16FromFloat32(float32(x)))
		case colligo.Int64:
			b = binary.LittleEndian.AppendUint64(b, uint64(int64(x)))
		default:
			b = append(b, byte(x))
		}
	}
	return b
}

// wrongError is a result that is not what it is to be.
type wrongError struct{ text string }

// Error tells both.
func (e *wrongError) Error() string { return e.text }

// same compares a tensor on the device with numbers.
func (r *rank) same(x colligo.Tensor, want []float64) error {
	got, err := r.bytes(x)
	if err != nil {
		return err
	}
	all, elem := encode(x.DType(), want), x.DType().Size()
	if len(got) != len(all) {
		return &wrongError{fmt.Sprintf("%d bytes, want %d", len(got), len(all))}
	}
	for i := range want {
		if !bytes.Equal(got[i*elem:(i+1)*elem], all[i*elem:(i+1)*elem]) {
			return &wrongError{fmt.Sprintf("element %d of %d is %x, want %x (%v)", i, len(want), got[i*elem:(i+1)*elem], all[i*elem:(i+1)*elem], want[i])}
		}
	}
	return nil
}
