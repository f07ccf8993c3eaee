package nccl

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
)

// Devices carries out collectives among GPUs of this process: each call has one tensor for each device, and no group. The first call on
// a list of devices makes its communicators, which later calls on the same list have again. Calls may come from any goroutine; they
// enqueue and return. An error of the library leaves a list's communicators as they are. c10d: torch.cuda.nccl.
type Devices struct {
	driver  *cuda.Driver
	library *Library

	mu      sync.Mutex
	devices map[int]*cuda.Device
	comms   map[string][]*Comm // by the list of their devices
}

// NewDevices returns the GPUs of a driver with a library. Close gives back what calls have made.
func NewDevices(d *cuda.Driver, l *Library) *Devices {
	return &Devices{driver: d, library: l, devices: map[int]*cuda.Device{}, comms: map[string][]*Comm{}}
}

// ListOptions are what a call on a list of tensors may be given. The zero value leaves all to Devices.
type ListOptions struct {
	// Streams has the stream of each tensor's device. An absent or zero one is the device's default stream.
	Streams []cuda.Stream
	// Comms has the communicator of each tensor, with the ranks in the order of the list. The caller closes them. Empty takes those of
	// Devices.
	Comms []*Comm
}

// AllReduce leaves in each output the reduction of all inputs. Outputs may be the inputs; nil means so. c10d: torch.cuda.nccl.all_reduce.
func (x *Devices) AllReduce(ins, outs []colligo.Tensor, op colligo.ReduceOp, o ListOptions) error {
	if outs == nil {
		outs = ins
	}
	return x.run("all_reduce", ins, o, func() error { return checkLists(ins, outs, 1, 1) }, func(i int, c *Comm, s cuda.Stream) error {
		r, err := c.listReduction(ins[0].DType(), op)
		if err != nil {
			return err
		}
		return c.AllReduce(at(ins[i]), at(outs[i]), ins[i].Len(), r, s)
	})
}

// Reduce leaves in out, on the device of the root's input, the reduction of all inputs. An invalid out is the root's input.
// c10d: torch.cuda.nccl.reduce.
func (x *Devices) Reduce(ins []colligo.Tensor, out colligo.Tensor, root int, op colligo.ReduceOp, o ListOptions) error {
	check := func() error {
		if root < 0 || root >= len(ins) {
			return fmt.Errorf("invalid root %d of %d inputs", root, len(ins))
		}
		if !out.Valid() {
			out = ins[root]
		}
		return checkRoot(ins, out, root)
	}
	return x.run("reduce", ins, o, check, func(i int, c *Comm, s cuda.Stream) error {
		r, err := c.listReduction(ins[0].DType(), op)
		if err != nil {
			return err
		}
		to := cuda.Pointer(0)
		if i == root {
			to = at(out)
		}
		return c.Reduce(at(ins[i]), to, ins[i].Len(), r, root, s)
	})
}

// Broadcast copies the first tensor to all others. c10d: torch.cuda.nccl.broadcast.
func (x *Devices) Broadcast(ts []colligo.Tensor, o ListOptions) error {
	return x.run("broadcast", ts, o, func() error { return checkLists(ts, ts, 1, 1) }, func(i int, c *Comm, s cuda.Stream) error {
		return c.Broadcast(at(ts[i]), at(ts[i]), ts[i].Len(), ts[i].DType(), 0, s)
	})
}

// AllGather copies the inputs, one behind the other, to each output. c10d: torch.cuda.nccl.all_gather.
func (x *Devices) AllGather(ins, outs []colligo.Tensor, o ListOptions) error {
	return x.run("all_gather", ins, o, func() error { return checkLists(ins, outs, len(ins), 1) }, func(i int, c *Comm, s cuda.Stream) error {
		return c.AllGather(at(ins[i]), at(outs[i]), ins[i].Len(), ins[i].DType(), s)
	})
}

// ReduceScatter leaves in each output the reduction of its part of all inputs, which are as long as the outputs together.
// c10d: torch.cuda.nccl.reduce_scatter.
func (x *Devices) ReduceScatter(ins, outs []colligo.Tensor, op colligo.ReduceOp, o ListOptions) error {
	return x.run("reduce_scatter", ins, o, func() error { return checkLists(ins, outs, 1, len(ins)) }, func(i int, c *Comm, s cuda.Stream) error {
		r, err := c.listReduction(ins[0].DType(), op)
		if err != nil {
			return err
		}
		return c.ReduceScatter(at(ins[i]), at(outs[i]), outs[i].Len(), r, s)
	})
}

// IsAvailable reports whether a call can take the tensors. Each must be contiguous and on a GPU of its own.
// c10d: torch.cuda.nccl.is_available.
func IsAvailable(ts []colligo.Tensor) bool {
	var seen []colligo.Device
	for _, t := range ts {
		if !t.Valid() || t.Device().Kind != colligo.CUDA || !t.Contiguous() || slices.Contains(seen, t.Device()) {
			return false
		}
		seen = append(seen, t.Device())
	}
	return true
}

func at(t colligo.Tensor) cuda.Pointer { return cuda.Pointer(t.Addr()) }

// listReduction returns a reduction for one call.
func (c *Comm) listReduction(d colligo.DType, op colligo.ReduceOp) (Reduction, error) {
	if op.Kind() == colligo.KindPremulSum {
		return Reduction{}, errors.New("nccl: a premultiplied sum belongs to one communicator; lists of devices have none")
	}
	return c.Reduction(d, op.Kind())
}

// run carries out a call: one of the library for each tensor, on its device, in one group of this thread.
func (x *Devices) run(name string, ins []colligo.Tensor, o ListOptions, check func() error, call func(i int, c *Comm, s cuda.Stream) error) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	comms, devices, err := x.take(ins, &o, check)
	if err == nil {
		err = x.launch(comms, devices, &o, call)
	}
	if err != nil {
		return fmt.Errorf("nccl: %s of a list: %w", name, err)
	}
	return nil
}

// take checks a call, and returns the communicators and the devices of its tensors.
func (x *Devices) take(ins []colligo.Tensor, o *ListOptions, check func() error) (comms []*Comm, devices []*cuda.Device, err error) {
	if err := check(); err != nil {
		return nil, nil, err
	}
	if n := len(o.Streams); n > 0 && n != len(ins) {
		return nil, nil, fmt.Errorf("%d streams for %d inputs", n, len(ins))
	}
	if n := len(o.Comms); n > 0 && n != len(ins) {
		return nil, nil, fmt.Errorf("%d communicators for %d inputs", n, len(ins))
	}
	var numbers []int
	for _, t := range ins {
		n := t.Device().Index
		if x.devices[n] == nil {
			if x.devices[n], err = x.driver.Device(n); err != nil {
				delete(x.devices, n)
				return nil, nil, err
			}
		}
		numbers, devices = append(numbers, n), append(devices, x.devices[n])
	}
	if len(o.Comms) > 0 {
		return o.Comms, devices, nil
	}
	key := fmt.Sprint(numbers)
	if x.comms[key] == nil {
		made, err := x.library.NewComms(numbers)
		if err != nil {
			return nil, nil, err
		}
		x.comms[key] = made
	}
	return x.comms[key], devices, nil
}

// launch gives the calls to the library in one group. Communicators that do not block have launched them in the end.
func (x *Devices) launch(comms []*Comm, devices []*cuda.Device, o *ListOptions, call func(i int, c *Comm, s cuda.Stream) error) error {
	runtime.LockOSThread() // the library counts groups by thread
	defer runtime.UnlockOSThread()
	if err := x.library.GroupStart(); err != nil {
		return err
	}
	var errs []error
	for i, c := range comms {
		s := cuda.Stream(0)
		if len(o.Streams) > 0 {
			s = o.Streams[i]
		}
		c.groups++
		err := onThread(devices[i], func() error { return call(i, c, s) })
		c.groups--
		if errs = append(errs, err); err != nil {
			break
		}
	}
	err := onThread(devices[0], func() error { return comms[0].enqueued("ncclGroupEnd", x.library.table.GroupEnd()) })
	for i := 1; i < len(comms) && err == nil; i++ {
		if comms[i].nonBlocking {
			err = comms[i].enqueued("ncclGroupEnd", InProgress)
		}
	}
	return errors.Join(append(errs, err)...)
}

func onThread(d *cuda.Device, f func() error) error {
	t, err := d.Enter()
	if err != nil {
		return err
	}
	defer t.Leave()
	return f()
}

// Close destroys the communicators, on which nothing is pending any more, and gives the devices back.
func (x *Devices) Close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	var errs []error
	for _, comms := range x.comms {
		for _, c := range comms {
			errs = append(errs, c.Close())
		}
	}
	for _, d := range x.devices {
		errs = append(errs, d.Close())
	}
	clear(x.comms)
	clear(x.devices)
	return errors.Join(errs...)
}

// checkLists refuses lists of inputs and outputs that do not fit together. An output is as long as an input, times one factor and
// divided by the other.
func checkLists(ins, outs []colligo.Tensor, times, over int) error {
	if len(ins) == 0 {
		return errEmptyList
	}
	if len(ins) != len(outs) {
		return fmt.Errorf("inputs and outputs sequences have to be of the same length, but got input of length %d and output of length %d", len(ins), len(outs))
	}
	for i := range ins {
		if err := checkEntry(ins, i, outs[i], times, over); err != nil {
			return err
		}
	}
	return nil
}

// checkRoot refuses inputs, and the output of the root, that do not fit together.
func checkRoot(ins []colligo.Tensor, out colligo.Tensor, root int) error {
	for i := range ins {
		to := ins[i]
		if i == root {
			to = out
		}
		if err := checkEntry(ins, i, to, 1, 1); err != nil {
			return err
		}
	}
	return nil
}

var errEmptyList = errors.New("input sequence can't be empty")

// checkEntry refuses an input, with its output, that does not fit the first input. The words are c10d's.
func checkEntry(ins []colligo.Tensor, i int, out colligo.Tensor, times, over int) error {
	in, first := ins[i], ins[0]
	if err := checkListed(in, first); err != nil {
		return err
	}
	if in.Len() != first.Len() {
		return errors.New("all inputs must have the same number of elements")
	}
	if err := checkListed(out, first); err != nil {
		return err
	}
	if in.Device() != out.Device() {
		return errors.New("input and output must be on the same device")
	}
	if out.Len()*over != first.Len()*times {
		return fmt.Errorf("output must be of size input_size * size_multiplier: %d elements for %d", out.Len(), first.Len())
	}
	for _, before := range ins[:i] {
		if before.Device() == in.Device() {
			return fmt.Errorf("inputs must be on unique devices: two are on %v", in.Device())
		}
	}
	return nil
}

// checkListed refuses a tensor of a list by itself.
func checkListed(t, first colligo.Tensor) error {
	switch {
	case !t.Valid() || t.Device().Kind != colligo.CUDA:
		return errors.New("input and output elements have to be cuda dense Tensors")
	case t.DType() != first.DType():
		return errors.New("all inputs and outputs must be of the same Tensor dtype")
	case !t.Contiguous():
		return errors.New("all inputs and outputs have to be contiguous")
	}
	return nil
}
