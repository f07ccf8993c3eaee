package main

import (
	"errors"
	"fmt"
	"sync"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
)

// stagingBytes is what is copied between host and device at a time.
const stagingBytes = 32 << 20

// leastStretch is the least memory that is taken, in bytes.
const leastStretch = 4096

// gpu is one rank's device: its memory, its stream, and the events that time what runs there.
type gpu struct {
	device    *cuda.Device
	stream    cuda.Stream
	events    [2]cuda.Event
	stretches [stretches]cuda.Pointer
	staging   *cuda.Host
	workers   int // goroutines that fill and check
}

// openGPU takes stretches of at least so many bytes. On failure it gives everything back.
func openGPU(d *cuda.Driver, index, bytes, workers int) (*gpu, error) {
	device, err := d.Device(index)
	if err != nil {
		return nil, err
	}
	g := &gpu{device: device, workers: max(workers, 1)}
	t, err := device.Enter()
	if err != nil {
		return nil, errors.Join(err, device.Close())
	}
	err = g.take(t, max(bytes, leastStretch))
	t.Leave()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("tensors of %s on %v: %w", formatSize(bytes), device, err), g.close())
	}
	return g, nil
}

func (g *gpu) take(t cuda.Thread, bytes int) (err error) {
	if g.stream, err = t.NewStream(0); err != nil {
		return err
	}
	for i := range g.events {
		if g.events[i], err = t.NewEvent(true); err != nil {
			return err
		}
	}
	for i := range g.stretches {
		if g.stretches[i], err = t.Alloc(bytes); err != nil {
			return err
		}
	}
	g.staging, err = t.AllocHost(min(bytes, stagingBytes))
	return err
}

// close gives everything back. The group is closed before: its backend may still look at the stream.
func (g *gpu) close() error {
	t, err := g.device.Enter()
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range g.stretches {
		if p != 0 {
			errs = append(errs, t.Free(p))
		}
	}
	for _, e := range g.events {
		if e != 0 {
			errs = append(errs, t.DestroyEvent(e))
		}
	}
	if g.staging != nil {
		errs = append(errs, t.FreeHost(g.staging))
	}
	if g.stream != 0 {
		errs = append(errs, t.DestroyStream(g.stream))
	}
	t.Leave()
	return errors.Join(append(errs, g.device.Close())...)
}

func (g *gpu) tensor(s stretch, d colligo.DType, n int) colligo.Tensor {
	return colligo.OnDevice(g.device.Place(), uintptr(g.stretches[s]), n, d)
}

func (g *gpu) write(t colligo.Tensor, f func(part colligo.Tensor, first int)) error {
	return g.staged(t, func(th cuda.Thread, host, device cuda.Pointer, bytes int, each func()) error {
		each()
		return errors.Join(th.Copy(device, host, bytes, g.stream), th.Synchronize(g.stream))
	}, f)
}

func (g *gpu) read(t colligo.Tensor, f func(part colligo.Tensor, first int)) error {
	return g.staged(t, func(th cuda.Thread, host, device cuda.Pointer, bytes int, each func()) error {
		err := errors.Join(th.Copy(host, device, bytes, g.stream), th.Synchronize(g.stream))
		if err == nil {
			each()
		}
		return err
	}, f)
}

// staged moves a tensor piece by piece through the staging memory; each calls f with the parts of the piece.
func (g *gpu) staged(t colligo.Tensor, move func(th cuda.Thread, host, device cuda.Pointer, bytes int, each func()) error,
	f func(part colligo.Tensor, first int)) error {
	th, err := g.device.Enter()
	if err != nil {
		return err
	}
	defer th.Leave()
	elem := t.DType().Size()
	piece := len(g.staging.Bytes) / elem
	for from := 0; from < t.Len(); from += piece {
		n := min(piece, t.Len()-from)
		host := colligo.Bytes(g.staging.Bytes[:n*elem], t.DType())
		each := func() { g.parallel(host, from, f) }
		if err := move(th, g.staging.Device, cuda.Pointer(t.Addr())+cuda.Pointer(from*elem), n*elem, each); err != nil {
			return err
		}
	}
	return nil
}

// parallel cuts a tensor among the workers. The cuts lie on whole cache lines, so that no two write into one.
func (g *gpu) parallel(host colligo.Tensor, first int, f func(part colligo.Tensor, first int)) {
	const line = 1 << 10 // elements
	share := (host.Len()/g.workers + line) / line * line
	var all sync.WaitGroup
	for from := 0; from < host.Len(); from += share {
		part := host.Slice(from, min(from+share, host.Len()))
		all.Go(func() { f(part, first+from) })
	}
	all.Wait()
}

// timed returns the milliseconds of the device between the first and the last of what f enqueues.
func (g *gpu) timed(f func() error) (float64, error) {
	t, err := g.device.Enter()
	if err != nil {
		return 0, err
	}
	defer t.Leave()
	if err := t.Record(g.events[0], g.stream); err != nil {
		return 0, err
	}
	if err := f(); err != nil {
		return 0, err
	}
	if err := errors.Join(t.Record(g.events[1], g.stream), t.Synchronize(g.stream)); err != nil {
		return 0, err
	}
	ms, err := t.Elapsed(g.events[0], g.events[1])
	return float64(ms), err
}

// capture makes a graph of what f enqueues.
func (g *gpu) capture(f func() error) (cuda.GraphExec, error) {
	t, err := g.device.Enter()
	if err != nil {
		return 0, err
	}
	defer t.Leave()
	if err := t.BeginCapture(g.stream, cuda.CaptureThreadLocal); err != nil {
		return 0, err
	}
	if err := f(); err != nil {
		_, err2 := t.EndCapture(g.stream)
		return 0, errors.Join(err, err2)
	}
	return t.EndCapture(g.stream)
}

// onDevice calls f with the device's context current.
func (g *gpu) onDevice(f func(t cuda.Thread) error) error {
	t, err := g.device.Enter()
	if err != nil {
		return err
	}
	defer t.Leave()
	return f(t)
}
