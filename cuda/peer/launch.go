package peer

import (
	"errors"
	"unsafe"

	"github.com/colligo-go/colligo/cuda"
)

// opCommands is about how many commands an operation enqueues: a graph of one kernel counts as two.
const opCommands = 2

// repeatMost is the threads of the largest grid that is launched as a graph. The host launches a graph in 1.1 µs on an H200's
// host, a kernel ahead in 2.3 to 3.4, but between graphs the device takes 0.9 µs more: what takes the device less time
// than the host gains by it.
const repeatMost = 1024

// repeats are the kernels as graphs; without a map there are none.
type repeats struct {
	of   map[cuda.Function]*cuda.Repeat
	with cuda.Stream // for making them
}

func (r *repeats) add(t cuda.Thread, f cuda.Function, args uintptr) error {
	if r.of == nil {
		return nil
	}
	x, err := t.NewRepeat(f, args, r.with)
	if err == nil {
		r.of[f] = x
	}
	return err
}

func (r *repeats) free(t cuda.Thread) error {
	var errs []error
	for _, x := range r.of {
		errs = append(errs, t.DestroyRepeat(x))
	}
	r.of = nil
	return errors.Join(errs...)
}

// launch enqueues a kernel that waits itself for what is before it on the stream, where the device has that: those by
// packets, rows and tiles, and the copy.
func (c *code) launch(t cuda.Thread, f cuda.Function, g cuda.Grid, args unsafe.Pointer, s cuda.Stream) error {
	if x := c.repeats.of[f]; x != nil && g.Blocks*g.Threads <= repeatMost {
		captured, _, err := capture(t, s)
		if err != nil {
			return err
		}
		if !captured {
			return t.LaunchRepeat(x, g, args, s)
		}
	}
	if c.ahead {
		return t.LaunchAhead(f, g, args, s)
	}
	return t.Launch(f, g, args, s)
}
