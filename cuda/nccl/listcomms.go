package nccl

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/internal/devmem"
	"github.com/colligo-go/colligo/cuda/internal/streamorder"
	"github.com/colligo-go/colligo/plan"
)

// listComms is NCCL's ListEngine: a communicator for each device of a list.
type listComms struct {
	library *Library
	comms   map[string][]*Comm // by the list of their devices
}

// Name implements ListEngine.
func (e *listComms) Name() string { return Name }

// Run implements ListEngine: one call of the library for each tensor, on its device, in one group of this thread.
func (e *listComms) Run(c *ListCall) error {
	comms, err := e.commsOf(c)
	if err != nil {
		return err
	}
	return e.launch(comms, c)
}

// commsOf returns the communicators for a call. If the caller gives none they belong to the list of devices, whose first call makes them.
func (e *listComms) commsOf(c *ListCall) ([]*Comm, error) {
	if len(c.Comms) > 0 {
		return c.Comms, nil
	}
	numbers := make([]int, len(c.Devices))
	for i, d := range c.Devices {
		numbers[i] = d.Place().Index
	}
	key := fmt.Sprint(numbers)
	if e.comms[key] == nil {
		made, err := e.library.NewComms(numbers)
		if err != nil {
			return nil, err
		}
		e.comms[key] = made
	}
	return e.comms[key], nil
}

// launch gives the calls to the library in one group. Communicators that do not block have launched them in the end.
func (e *listComms) launch(comms []*Comm, c *ListCall) error {
	runtime.LockOSThread() // the library counts groups by thread
	defer runtime.UnlockOSThread()
	if err := e.library.GroupStart(); err != nil {
		return err
	}
	var errs []error
	for i, comm := range comms {
		comm.groups++
		err := streamorder.OnDevice(c.Devices[i], func(cuda.Thread) error { return comm.listed(c, i) })
		comm.groups--
		if errs = append(errs, err); err != nil {
			break
		}
	}
	err := streamorder.OnDevice(c.Devices[0], func(cuda.Thread) error {
		return comms[0].enqueued("ncclGroupEnd", e.library.table.GroupEnd())
	})
	for i := 1; i < len(comms) && err == nil; i++ {
		if comms[i].nonBlocking {
			err = comms[i].enqueued("ncclGroupEnd", InProgress)
		}
	}
	return errors.Join(append(errs, err)...)
}

// listed enqueues the part of tensor i in a call.
func (c *Comm) listed(x *ListCall, i int) (err error) {
	in, s, n := x.Ins[i], x.Stream(i), x.Ins[i].Len()
	var r Reduction
	if x.Coll.Reduces() {
		if r, err = c.Reduction(in.DType(), x.Op.Kind()); err != nil {
			return err
		}
	}
	switch x.Coll {
	case plan.AllReduce:
		return c.AllReduce(devmem.Address(in), devmem.Address(x.Outs[i]), n, r, s)
	case plan.Reduce:
		to := cuda.Pointer(0)
		if i == x.Root {
			to = devmem.Address(x.Outs[i])
		}
		return c.Reduce(devmem.Address(in), to, n, r, x.Root, s)
	case plan.Broadcast:
		return c.Broadcast(devmem.Address(in), devmem.Address(in), n, in.DType(), 0, s)
	case plan.AllGather:
		return c.AllGather(devmem.Address(in), devmem.Address(x.Outs[i]), n, in.DType(), s)
	case plan.ReduceScatter:
		return c.ReduceScatter(devmem.Address(in), devmem.Address(x.Outs[i]), x.Outs[i].Len(), r, s)
	}
	return fmt.Errorf("%v has no form on a list", x.Coll)
}

// Close implements ListEngine.
func (e *listComms) Close() error {
	var errs []error
	for _, comms := range e.comms {
		for _, c := range comms {
			errs = append(errs, c.Close())
		}
	}
	clear(e.comms)
	return errors.Join(errs...)
}
