package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/colligo-go/colligo/cuda"
)

// Copies that are timed: the fastest of some rounds, each of several in a row.
const (
	copyRounds = 4
	copiesEach = 4
)

// links prints a matrix: for each device the GB/s that copies reach from it to the others, and in its own memory.
func (e *examiner) links() {
	e.say("links", "GB/s of copies of %d MiB, one edge at a time", e.bytes>>20)
	head := "from"
	for i := range e.devices {
		head += fmt.Sprintf("\tto %d", i)
	}
	e.say("", "%s", head)
	for i, from := range e.devices {
		line := fmt.Sprint(i)
		for j, to := range e.devices {
			gbps, err := e.edge(from, to)
			switch {
			case errors.Is(err, errApart):
				line += "\tno P2P"
				e.apart = append(e.apart, fmt.Sprintf("%d to %d", i, j))
			case err != nil:
				line += "\terror"
				e.miss(broken, "a sound link from device %d to device %d: %v", i, j, err)
			default:
				line += fmt.Sprintf("\t%.1f", gbps)
			}
		}
		e.say("", "%s", line)
	}
	if len(e.apart) > 0 {
		e.miss("turn off PCIe access control (ACS) on the switches, or have the virtual machine given its GPUs with P2P; nvidia-smi topo -p2p r shows the cause",
			"P2P access from device %s", strings.Join(e.apart, ", "))
	}
}

var errApart = errors.New("no P2P access")

// edge copies from one device to another, checks what has arrived, and returns the bandwidth in 10^9 bytes per second.
func (e *examiner) edge(from, to *cuda.Device) (gbps float64, err error) {
	dst, err := allocate(to, e.bytes)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, dst.free()) }()
	t, err := from.Enter()
	if err != nil {
		return 0, err
	}
	defer t.Leave()
	if from != to {
		yes, err := from.CanAccess(to)
		if err != nil {
			return 0, err
		}
		if !yes {
			return 0, errApart
		}
		if err := t.EnablePeer(to); err != nil {
			return 0, err
		}
	}
	w, err := newWire(t, e.bytes)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, w.free()) }()
	e.edges++
	return w.measure(dst, byte(e.edges))
}

// block is memory on a device.
type block struct {
	device *cuda.Device
	at     cuda.Pointer
}

func allocate(d *cuda.Device, bytes int) (block, error) {
	t, err := d.Enter()
	if err != nil {
		return block{}, err
	}
	defer t.Leave()
	at, err := t.Alloc(bytes)
	return block{d, at}, err
}

// wrong counts the bytes at the block's end that are not as they should be. Its own device reads them.
func (b block) wrong(bytesOf int, sample *cuda.Host, want byte) (int, error) {
	t, err := b.device.Enter()
	if err != nil {
		return 0, err
	}
	defer t.Leave()
	n := len(sample.Bytes)
	err = errors.Join(t.Copy(sample.Device, b.at+cuda.Pointer(bytesOf-n), n, 0), t.Synchronize(0))
	return n - bytes.Count(sample.Bytes, []byte{want}), err
}

func (b block) free() error {
	t, err := b.device.Enter()
	if err != nil {
		return err
	}
	defer t.Leave()
	return t.Free(b.at)
}

// wire is what a copy needs on the sending device.
type wire struct {
	t      cuda.Thread
	bytes  int
	stream cuda.Stream
	events [2]cuda.Event
	src    cuda.Pointer
	sample *cuda.Host
}

// sampleBytes of the end of a copy are looked at.
const sampleBytes = 1 << 20

func newWire(t cuda.Thread, n int) (w *wire, err error) {
	w = &wire{t: t, bytes: n}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.free())
		}
	}()
	if w.stream, err = t.NewStream(0); err != nil {
		return w, err
	}
	for i := range w.events {
		if w.events[i], err = t.NewEvent(true); err != nil {
			return w, err
		}
	}
	if w.src, err = t.Alloc(n); err != nil {
		return w, err
	}
	w.sample, err = t.AllocHost(min(n, sampleBytes))
	return w, err
}

func (w *wire) free() error {
	var errs []error
	if w.src != 0 {
		errs = append(errs, w.t.Free(w.src))
	}
	if w.sample != nil {
		errs = append(errs, w.t.FreeHost(w.sample))
	}
	for _, v := range w.events {
		if v != 0 {
			errs = append(errs, w.t.DestroyEvent(v))
		}
	}
	if w.stream != 0 {
		errs = append(errs, w.t.DestroyStream(w.stream))
	}
	return errors.Join(errs...)
}

// measure times copies to dst, and verifies that they bring mark, which no edge before has brought.
func (w *wire) measure(dst block, mark byte) (gbps float64, err error) {
	if err := w.t.Set8(w.src, mark, w.bytes, w.stream); err != nil {
		return 0, err
	}
	for range copyRounds {
		ms, err := w.timed(dst.at)
		if err != nil {
			return 0, err
		}
		if ms > 0 {
			gbps = max(gbps, copiesEach*float64(w.bytes)/ms/1e6)
		}
	}
	wrong, err := dst.wrong(w.bytes, w.sample, mark)
	if err == nil && wrong > 0 {
		err = fmt.Errorf("%d of %d bytes have not arrived as they were sent", wrong, len(w.sample.Bytes))
	}
	return gbps, err
}

func (w *wire) timed(dst cuda.Pointer) (ms float64, err error) {
	t := w.t
	if err := t.Record(w.events[0], w.stream); err != nil {
		return 0, err
	}
	for range copiesEach {
		if err := t.Copy(dst, w.src, w.bytes, w.stream); err != nil {
			return 0, err
		}
	}
	if err := errors.Join(t.Record(w.events[1], w.stream), t.Synchronize(w.stream)); err != nil {
		return 0, err
	}
	v, err := t.Elapsed(w.events[0], w.events[1])
	return float64(v), err
}
