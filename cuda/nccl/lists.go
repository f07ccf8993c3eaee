package nccl

import (
	"errors"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/internal/devmem"
	"github.com/colligo-go/colligo/cuda/internal/streamorder"
	"github.com/colligo-go/colligo/pg/backend"
)

// gatherList enqueues an all-gather to a list of equal parts: as one of c10d's process group, to one tensor that is copied to the
// list. Parts that lie behind one another are that tensor.
func (b *ncclBackend) gatherList(t cuda.Thread, c *backend.Call, s cuda.Stream) error {
	bytes := c.Count * c.DType.Size()
	all, err := b.flat(t, c.Outs, bytes, s)
	if err != nil {
		return err
	}
	if err := b.main.AllGather(devmem.Address(c.In), all, c.Count, c.DType, s); err != nil {
		return err
	}
	return spread(c.Outs, all, bytes, func(part, at cuda.Pointer) error { return t.Copy(part, at, bytes, s) })
}

// reduceList enqueues a reduce-scatter of a list of equal parts, which are copied to one tensor unless they are one.
func (b *ncclBackend) reduceList(t cuda.Thread, c *backend.Call, r Reduction, s cuda.Stream) error {
	bytes := c.Count * c.DType.Size()
	all, err := b.flat(t, c.Ins, bytes, s)
	if err != nil {
		return err
	}
	err = spread(c.Ins, all, bytes, func(part, at cuda.Pointer) error { return t.Copy(at, part, bytes, s) })
	if err != nil {
		return err
	}
	return b.main.ReduceScatter(all, devmem.Address(c.Out), c.Count, r, s)
}

// flat returns the memory of a list if its parts lie behind one another, else scratch memory for it.
func (b *ncclBackend) flat(t cuda.Thread, parts []colligo.Tensor, bytes int, s cuda.Stream) (cuda.Pointer, error) {
	first := devmem.Address(parts[0])
	for i := range parts {
		if devmem.Address(parts[i]) != first+cuda.Pointer(i*bytes) {
			return b.scratch.take(t, bytes*len(parts), s)
		}
	}
	return first, nil
}

// spread calls f with each part of a list and with its place in one memory, unless it lies there.
func spread(parts []colligo.Tensor, all cuda.Pointer, bytes int, f func(part, at cuda.Pointer) error) error {
	if bytes == 0 {
		return nil
	}
	for i := range parts {
		part, at := devmem.Address(parts[i]), all+cuda.Pointer(i*bytes)
		if part == at {
			continue
		}
		if err := f(part, at); err != nil {
			return err
		}
	}
	return nil
}

// scratch is memory of the device for what one collective has to lay out. The next one on the backend has the same memory, for
// collectives follow one another. An operation that a graph captures has memory of its own, which stays until the backend is closed.
type scratch struct {
	at   cuda.Pointer
	size int
	all  []cuda.Pointer
}

// leastScratch is how many bytes are taken at least.
const leastScratch = 4096

// take returns memory for an operation on a stream.
func (x *scratch) take(t cuda.Thread, bytes int, s cuda.Stream) (at cuda.Pointer, err error) {
	captured, _, err := streamorder.Capture(t, s)
	if err != nil || !captured && bytes <= x.size {
		return x.at, err
	}
	bytes = max(bytes, leastScratch)
	if !captured {
		bytes = max(bytes, 2*x.size)
	}
	err = streamorder.Relaxed(t, func() (err error) {
		at, err = t.Alloc(bytes)
		return err
	})
	if err != nil {
		return 0, err
	}
	x.all = append(x.all, at)
	if !captured {
		x.at, x.size = at, bytes
	}
	return at, nil
}

// free gives all of it back.
func (x *scratch) free(t cuda.Thread) error {
	var errs []error
	for _, p := range x.all {
		errs = append(errs, t.Free(p))
	}
	*x = scratch{}
	return errors.Join(errs...)
}
