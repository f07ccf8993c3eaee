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

// kernel is an entry point, also as a graph where the driver has those.
type kernel struct {
	cuda.Function
	again *cuda.Repeat
}

// repeats makes graphs of kernels and gives them back.
type repeats struct {
	wanted bool
	with   cuda.Stream // for making them
	all    []*cuda.Repeat
}

// kernel returns f, whose parameter is a struct of args bytes, with its graph.
func (r *repeats) kernel(t cuda.Thread, f cuda.Function, args uintptr) (kernel, error) {
	if !r.wanted {
		return kernel{f, nil}, nil
	}
	x, err := t.NewRepeat(f, args, r.with)
	if err == nil {
		r.all = append(r.all, x)
	}
	return kernel{f, x}, err
}

func (r *repeats) free(t cuda.Thread) error {
	var errs []error
	for _, x := range r.all {
		errs = append(errs, t.DestroyRepeat(x))
	}
	r.all = nil
	return errors.Join(errs...)
}

// launch enqueues a kernel that waits itself for what is before it on the stream, where the device has that: those by
// packets, rows and tiles, and the copy.
func (c *code) launch(t cuda.Thread, k kernel, g cuda.Grid, args unsafe.Pointer, s cuda.Stream) error {
	if k.again != nil && g.Blocks*g.Threads <= repeatMost {
		if captured, err := t.LaunchRepeat(k.again, g, args, s); !captured {
			return err
		}
	}
	if c.ahead {
		return t.LaunchAhead(k.Function, g, args, s)
	}
	return t.Launch(k.Function, g, args, s)
}
