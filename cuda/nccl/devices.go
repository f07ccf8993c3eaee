package nccl

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/plan"
)

// Devices carries out collectives among GPUs of this process: each call has one tensor for each device, and no group. Calls may come from
// any goroutine; they enqueue and return. A ListEngine does the work: NewDevices has NCCL's, and gpu.NewDevices may have this library's
// own. Arguments are checked alike with all of them. c10d: torch.cuda.nccl.
type Devices struct {
	driver *cuda.Driver
	engine ListEngine

	mu      sync.Mutex
	devices map[int]*cuda.Device
}

// ListEngine carries out the collectives of Devices. They come one at a time.
type ListEngine interface {
	// Name is that of the engine, as errors begin with.
	Name() string
	// Run enqueues a collective on all devices of its list, and returns.
	Run(c *ListCall) error
	// Close gives back what calls have made, while the devices are still open. Nothing is pending any more.
	Close() error
}

// ListCall is a collective of Devices as a ListEngine gets it. Its arguments are checked, and no engine keeps it.
type ListCall struct {
	Coll    plan.Coll
	Op      colligo.ReduceOp // of collectives that reduce
	Root    int              // of a reduce; a broadcast's is 0
	Devices []*cuda.Device   // each tensor's
	Ins     []colligo.Tensor
	Outs    []colligo.Tensor // as many; of a reduce that of the root alone is valid, and a broadcast has none
	ListOptions
}

// Stream returns the stream of tensor i.
func (c *ListCall) Stream(i int) cuda.Stream {
	if len(c.Streams) == 0 {
		return 0
	}
	return c.Streams[i]
}

// NewDevices returns the GPUs of a driver with a library. The first call on a list of devices makes its communicators, which later calls
// on the same list have again. An error of the library leaves a list's communicators as they are. Close gives back what calls have made.
func NewDevices(d *cuda.Driver, l *Library) *Devices {
	return NewDevicesBy(d, &listComms{library: l, comms: map[string][]*Comm{}})
}

// NewDevicesBy returns the GPUs of a driver, with an engine that Close closes.
func NewDevicesBy(d *cuda.Driver, e ListEngine) *Devices {
	return &Devices{driver: d, engine: e, devices: map[int]*cuda.Device{}}
}

// ListOptions are what a call on a list of tensors may be given. The zero value leaves all to Devices.
type ListOptions struct {
	// Streams has the stream of each tensor's device. An absent or zero one is the device's default stream. With an engine other than
	// NCCL's a stream stays until Close, or until a call on the list has had another one.
	Streams []cuda.Stream
	// Comms has the communicator of each tensor, with the ranks in the order of the list. The caller closes them. Empty takes those of
	// Devices. Engines other than NCCL's refuse them.
	Comms []*Comm
}

// Engine returns the name of the engine.
func (x *Devices) Engine() string { return x.engine.Name() }

// AllReduce leaves in each output the reduction of all inputs. Outputs may be the inputs; nil means so. c10d: torch.cuda.nccl.all_reduce.
func (x *Devices) AllReduce(ins, outs []colligo.Tensor, op colligo.ReduceOp, o ListOptions) error {
	if outs == nil {
		outs = ins
	}
	return x.run(&ListCall{Coll: plan.AllReduce, Op: op, Ins: ins, Outs: outs, ListOptions: o}, checkLists(ins, outs, 1, 1))
}

// Reduce leaves in out, on the device of the root's input, the reduction of all inputs. An invalid out is the root's input.
// c10d: torch.cuda.nccl.reduce.
func (x *Devices) Reduce(ins []colligo.Tensor, out colligo.Tensor, root int, op colligo.ReduceOp, o ListOptions) error {
	c := &ListCall{Coll: plan.Reduce, Op: op, Root: root, Ins: ins, Outs: make([]colligo.Tensor, len(ins)), ListOptions: o}
	if root < 0 || root >= len(ins) {
		return x.run(c, fmt.Errorf("invalid root %d of %d inputs", root, len(ins)))
	}
	if !out.Valid() {
		out = ins[root]
	}
	c.Outs[root] = out
	return x.run(c, checkRoot(ins, out, root))
}

// Broadcast copies the first tensor to all others. c10d: torch.cuda.nccl.broadcast.
func (x *Devices) Broadcast(ts []colligo.Tensor, o ListOptions) error {
	return x.run(&ListCall{Coll: plan.Broadcast, Ins: ts, ListOptions: o}, checkLists(ts, ts, 1, 1))
}

// AllGather copies the inputs, one behind the other, to each output. c10d: torch.cuda.nccl.all_gather.
func (x *Devices) AllGather(ins, outs []colligo.Tensor, o ListOptions) error {
	return x.run(&ListCall{Coll: plan.AllGather, Ins: ins, Outs: outs, ListOptions: o}, checkLists(ins, outs, len(ins), 1))
}

// ReduceScatter leaves in each output the reduction of its part of all inputs, which are as long as the outputs together.
// c10d: torch.cuda.nccl.reduce_scatter.
func (x *Devices) ReduceScatter(ins, outs []colligo.Tensor, op colligo.ReduceOp, o ListOptions) error {
	return x.run(&ListCall{Coll: plan.ReduceScatter, Op: op, Ins: ins, Outs: outs, ListOptions: o}, checkLists(ins, outs, 1, len(ins)))
}

// run gives a call to the engine, unless its tensors were refused.
func (x *Devices) run(c *ListCall, refused error) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	err := refused
	if err == nil {
		err = x.take(c)
	}
	if err == nil {
		err = x.engine.Run(c)
	}
	if err != nil {
		return fmt.Errorf("%s: %v of a list: %w", x.engine.Name(), c.Coll, err)
	}
	return nil
}

// take checks a call beside its tensors, and opens their devices.
func (x *Devices) take(c *ListCall) (err error) {
	if n := len(c.Streams); n > 0 && n != len(c.Ins) {
		return fmt.Errorf("%d streams for %d inputs", n, len(c.Ins))
	}
	if n := len(c.Comms); n > 0 && n != len(c.Ins) {
		return fmt.Errorf("%d communicators for %d inputs", n, len(c.Ins))
	}
	if c.Coll.Reduces() && c.Op.Kind() == colligo.KindPremulSum {
		return errors.New("a premultiplied sum belongs to one communicator; lists of devices have none")
	}
	for _, t := range c.Ins {
		n := t.Device().Index
		if x.devices[n] == nil {
			if x.devices[n], err = x.driver.Device(n); err != nil {
				delete(x.devices, n)
				return err
			}
		}
		c.Devices = append(c.Devices, x.devices[n])
	}
	return nil
}

// Close closes the engine and gives the devices back. Nothing is pending on them any more.
func (x *Devices) Close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	errs := []error{x.engine.Close()}
	for _, d := range x.devices {
		errs = append(errs, d.Close())
	}
	clear(x.devices)
	return errors.Join(errs...)
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
