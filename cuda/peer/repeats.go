package peer

import (
	"errors"
	"slices"
	"time"
	"unsafe"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/kernels/ptx"
)

// repeatMost returns the threads of the largest grid that is launched as a graph, on a host that takes so long to launch a
// kernel. Graphs are for kernels that take a device less time than its host. By bench on two H200, a kernel for 1 KiB takes
// the device 2.0 µs in a graph of 20. It takes 3.1 to 3.3 as a graph of its own. For 64 KiB the times are 2.7 and 3.3 to 3.9.
// Without graphs a host that launches in 2.4 µs comes to 3.1 to 3.5 for both.
func repeatMost(launch time.Duration) int {
	switch {
	case launch < 2400*time.Nanosecond:
		return 0
	case launch < 2800*time.Nanosecond:
		return 1024
	}
	return repeatEver
}

const (
	repeatEver = 16384 // threads of the largest grid that any host launches as a graph

	// Of so many grids that may be graphs, some in the middle are launched without, one after the other. All of them are timed
	// except the first ones, for a launch behind graphs takes longer.
	sampleEvery, sampleLength, sampleFrom = 512, 10, 3
)

// repeats makes graphs of kernels and gives them back.
type repeats struct {
	wanted bool
	most   int  // threads of the largest grid
	adapts bool // most follows how fast the host is: the same one launches in 2.5 and in 4 µs, some seconds later
	count  int  // of launches
	took   [sampleLength]time.Duration
	all    []*cuda.Repeat
}

// pace decides which grids are launched as graphs, by how long a launch takes. Where that is not given it is measured, as the
// median of some runs, on a stream that is idle.
func (c *code) pace(t cuda.Thread, launch time.Duration, s cuda.Stream) error {
	if !c.repeats.wanted {
		return nil
	}
	var err error
	if launch == 0 {
		c.repeats.adapts = true
		if launch, err = c.timeLaunches(t, s); err != nil {
			return err
		}
	}
	c.repeats.most = repeatMost(launch)
	c.log.Debug("launches timed", "took", launch, "largest graph, in threads", c.repeats.most)
	return nil
}

// timeLaunches returns how long a launch takes the host.
func (c *code) timeLaunches(t cuda.Thread, s cuda.Stream) (time.Duration, error) {
	const launches = 16
	launch := t.Launch
	if c.ahead {
		launch = t.LaunchAhead
	}
	var runs [7]time.Duration
	for i := range runs {
		begin := time.Now()
		for range launches {
			if err := launch(c.move(copyBytes).Function, cuda.Grid{Blocks: 1, Threads: 32}, unsafe.Pointer(&ptx.CopyArgs{}), s); err != nil {
				return 0, err
			}
		}
		runs[i] = time.Since(begin) / launches
		if err := t.Synchronize(s); err != nil {
			return 0, err
		}
	}
	slices.Sort(runs[:])
	return runs[len(runs)/2], nil
}

// kernel returns f, whose parameter is a struct of args bytes, with its graph.
func (r *repeats) kernel(t cuda.Thread, f cuda.Function, args uintptr, making cuda.Stream) (kernel, error) {
	if !r.wanted {
		return kernel{Function: f}, nil
	}
	x, err := t.NewRepeat(f, args, making)
	if err == nil {
		r.all = append(r.all, x)
	}
	return kernel{Function: f, again: x}, err
}

// making calls f with a stream to make graphs with, which f alone knows. The setup stream does not do: the watchdog copies words there. A capture
// would take the copy for its own, and would end when the watchdog asks whether the copy is done. The stream is gone after f, for streams
// of ranks that share a device have few hardware queues.
func (r *repeats) making(t cuda.Thread, f func(s cuda.Stream) error) error {
	if !r.wanted {
		return f(0)
	}
	_, greatest, err := t.Priorities() // that of all streams of groups
	if err != nil {
		return err
	}
	s, err := t.NewStream(greatest)
	if err != nil {
		return err
	}
	return errors.Join(f(s), t.DestroyStream(s))
}

func (r *repeats) free(t cuda.Thread) error {
	var errs []error
	for _, x := range r.all {
		errs = append(errs, t.DestroyRepeat(x))
	}
	r.all = nil
	return errors.Join(errs...)
}
