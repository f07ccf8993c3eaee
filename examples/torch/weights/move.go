package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	_ "github.com/colligo-go/colligo/cuda/nccl"
	"github.com/colligo-go/colligo/pg"
)

// mover takes part in the job's calls with memory of the CPU. Each returns when b may be used again.
type mover interface {
	// broadcast fills b with what rank 0 broadcasts, or on rank 0 broadcasts b.
	broadcast(ctx context.Context, b []byte) error
	// sum adds a number up over the ranks.
	sum(ctx context.Context, n int64) (int64, error)
}

// onCPU moves bytes by a group that takes tensors on the CPU.
type onCPU struct{ g *pg.Group }

func (m onCPU) broadcast(ctx context.Context, b []byte) error {
	return m.g.Broadcast(ctx, colligo.Of(b), 0)
}

func (m onCPU) sum(ctx context.Context, n int64) (int64, error) {
	all := []int64{n}
	err := m.g.AllReduce(ctx, colligo.Of(all), colligo.Sum)
	return all[0], err
}

// onGPU moves bytes by a group that takes tensors on a GPU. They pass through memory of the device and page-locked memory of the CPU,
// both as large as the largest piece so far. All of it is in the order of the device's default stream.
type onGPU struct {
	g      *pg.Group
	device *cuda.Device
	page   *cuda.Host
	memory cuda.Pointer
	size   int // of both
}

// overNCCL opens this rank's GPU, forms the group, and has f use it.
func overNCCL(ctx context.Context, c pg.Config, f func(context.Context, mover, int) error) error {
	driver, err := cuda.Open()
	if err != nil {
		return err
	}
	local, err := pg.LocalRank()
	if err != nil {
		return err
	}
	return onDevice(ctx, driver, local, c, f)
}

// onDevice opens a GPU by the number of this rank on its host, forms the group, and has f use it.
func onDevice(ctx context.Context, driver *cuda.Driver, local int, c pg.Config, f func(context.Context, mover, int) error) (err error) {
	n, err := driver.Devices()
	if err != nil {
		return err
	}
	if n == 0 {
		return errors.New("this host has no GPU")
	}
	device, err := driver.Device(local % n)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, device.Close()) }()
	g, err := pg.Init(ctx, c)
	if err != nil {
		return err
	}
	m := &onGPU{g: g, device: device}
	return errors.Join(f(ctx, m, g.Rank()), m.close())
}

// close ends the group, and then gives the memory back that it has used.
func (m *onGPU) close() error {
	err := m.g.CloseAll()
	return errors.Join(err, m.on(func(t cuda.Thread) error { return m.free(t) }))
}

// on calls f on a thread of the device.
func (m *onGPU) on(f func(t cuda.Thread) error) error {
	t, err := m.device.Enter()
	if err != nil {
		return err
	}
	defer t.Leave()
	return f(t)
}

// free gives the memory back, when the stream is done with it.
func (m *onGPU) free(t cuda.Thread) error {
	if m.size == 0 {
		return nil
	}
	m.size = 0
	return errors.Join(t.Synchronize(0), t.Free(m.memory), t.FreeHost(m.page))
}

// reserve makes room for a piece.
func (m *onGPU) reserve(t cuda.Thread, n int) error {
	if n <= m.size {
		return nil
	}
	if err := m.free(t); err != nil {
		return err
	}
	memory, err := t.Alloc(n)
	if err != nil {
		return fmt.Errorf("a piece of %d bytes: %w", n, err)
	}
	page, err := t.AllocHost(n)
	if err != nil {
		return errors.Join(fmt.Errorf("a piece of %d bytes: %w", n, err), t.Free(memory))
	}
	m.memory, m.page, m.size = memory, page, n
	return nil
}

// through copies b to the device, calls a collective on it, and copies the result back.
func (m *onGPU) through(b []byte, call func(memory uintptr) error) error {
	in := func(t cuda.Thread) error {
		if err := m.reserve(t, len(b)); err != nil {
			return err
		}
		copy(m.page.Bytes, b)
		return t.Copy(m.memory, m.page.Device, len(b), 0)
	}
	out := func(t cuda.Thread) error {
		err := errors.Join(t.Copy(m.page.Device, m.memory, len(b), 0), t.Synchronize(0))
		if err == nil {
			copy(b, m.page.Bytes)
		}
		return err
	}
	if err := m.on(in); err != nil {
		return err
	}
	if err := call(uintptr(m.memory)); err != nil {
		return err
	}
	return m.on(out)
}

func (m *onGPU) broadcast(ctx context.Context, b []byte) error {
	return m.through(b, func(memory uintptr) error {
		return m.g.Broadcast(ctx, colligo.OnDevice(m.device.Place(), memory, len(b), colligo.Uint8), 0)
	})
}

func (m *onGPU) sum(ctx context.Context, n int64) (int64, error) {
	b := binary.LittleEndian.AppendUint64(nil, uint64(n))
	err := m.through(b, func(memory uintptr) error {
		return m.g.AllReduce(ctx, colligo.OnDevice(m.device.Place(), memory, 1, colligo.Int64), colligo.Sum)
	})
	return int64(binary.LittleEndian.Uint64(b)), err
}
