package gpu

import (
	"context"
	"errors"
	"fmt"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/peer"
	"github.com/colligo-go/colligo/pg"
)

// Rank is one rank of a job on one GPU: its default group, and where its work runs. It belongs to the goroutine on which Run has
// called the program, for its thread is on the device. Other goroutines may use the group.
type Rank struct {
	*pg.Group
	Thread cuda.Thread
	Stream cuda.Stream // of the rank's own; the context that Run gives has operations run on it

	arrays map[any]func() error // by array that has memory, what frees it
}

// Run opens a GPU and forms the default group of the job as pg.Init does. It calls f once, on a thread that is on the GPU. Operations with
// f's context run on the rank's stream. When f returns, Run closes the group, frees the arrays, and gives back stream and device. If f
// panics, the group is aborted first, so that no other rank waits.
//
// The GPU is that of c.Device. If c.Device is the CPU, which is the zero value, it is the GPU with the number pg.LocalRank. A launcher
// that shows each process one GPU alone needs colligo.Device{Kind: colligo.CUDA}. The driver is that of peer.With, else the machine's.
//
// The error is that of f, or of what could not be opened, formed or given back. c10d: torch.cuda.set_device, init_process_group
// with its device_id, and destroy_process_group.
func Run(ctx context.Context, c pg.Config, f func(ctx context.Context, r *Rank) error) error {
	if c.Device.Kind == colligo.CPU {
		local, err := pg.LocalRank()
		if err != nil {
			return fmt.Errorf("gpu: run: %w", err)
		}
		c.Device = colligo.Device{Kind: colligo.CUDA, Index: local}
	}
	driver, err := peer.DriverOf(ctx)
	if err != nil {
		return fmt.Errorf("gpu: run: %w", err)
	}
	return driver.OnDevice(c.Device.Index, func(t cuda.Thread, s cuda.Stream) error {
		ctx := peer.OnStream(ctx, s)
		g, err := pg.Init(ctx, c)
		if err != nil {
			return err
		}
		return (&Rank{Group: g, Thread: t, Stream: s, arrays: map[any]func() error{}}).run(ctx, f)
	})
}

// run calls f, and gives back the group and the arrays behind it.
func (r *Rank) run(ctx context.Context, f func(ctx context.Context, r *Rank) error) (err error) {
	returned := false
	defer func() {
		if !returned {
			r.Abort(errors.New("the program panicked"))
		}
		err = errors.Join(err, r.Close())
		for _, free := range r.arrays {
			err = errors.Join(err, free())
		}
	}()
	err = f(ctx, r)
	returned = true
	return err
}
