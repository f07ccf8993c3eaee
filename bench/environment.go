package main

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/nccl"
	"github.com/colligo-go/colligo/cuda/peer"
	"github.com/colligo-go/colligo/pg"
)

// environment is what one rank has besides its group: its memory and, on a GPU, device and baseline.
type environment struct {
	memory
	gpu      *gpu // nil on the CPU
	baseline *baseline
	external *external     // nil unless one is compared
	where    string        // such as "cpu", or the device's model
	first    time.Duration // from the process's beginning to the end of its first all_reduce on the GPU
	index    int           // of the device
}

// withNCCL gives the backend of that name its options. As a transport it carries plans, by default those of the ring.
func (o *options) withNCCL(ctx context.Context, p process) (context.Context, error) {
	l, err := p.library(o.nccl)
	if err != nil {
		return ctx, err
	}
	return nccl.With(ctx, nccl.Options{Driver: o.machine.driver, Library: l, Timeout: o.timeout, Plans: o.plans(), Rules: o.levels()}), nil
}

// openEnvironment takes memory for the largest size. On a GPU the context it returns goes with all operations. All ranks of
// the group call it. The environment is to be closed after the group, also if it comes with an error.
func (o *options) openEnvironment(ctx context.Context, g *pg.Group, v *variant, p process) (*environment, context.Context, error) {
	s := &environment{where: onCPU}
	if o.device == onCPU {
		s.memory = newHostMemory(o.largest())
		if o.isExternal() {
			var err error
			s.external, err = o.openExternal(ctx, g, p)
			return s, ctx, err
		}
		return s, ctx, nil
	}
	local, err := o.localRank(g)
	if err != nil {
		return s, ctx, err
	}
	s.index = local % o.machine.devices
	ctx = peer.With(ctx, peer.Options{Driver: o.machine.driver, Rules: v.rules, Memory: int(o.heap), Timeout: o.timeout})
	if o.onNCCL() {
		if ctx, err = o.withNCCL(ctx, p); err != nil {
			return s, ctx, err
		}
	}
	if s.gpu, err = openGPU(o.machine.driver, s.index, o.largest(), runtime.NumCPU()/o.ranks); err != nil {
		return s, ctx, err
	}
	s.memory = s.gpu
	ctx = peer.OnStream(ctx, s.gpu.stream)
	if s.where, err = s.gpu.device.Name(); err != nil {
		return s, ctx, err
	}
	if err := s.begin(ctx, g, p); err != nil {
		return s, ctx, err
	}
	if o.compare != "" {
		if s.baseline, err = openBaseline(ctx, g, s.gpu, o.nccl, p.getenv(nvlsSwitch)); err != nil {
			return s, ctx, err
		}
	}
	if o.register {
		err = s.register(ctx, g, max(o.largest(), leastStretch))
	}
	return s, ctx, err
}

// register registers both stretches. The group's Close, and the communicator's, undo it.
func (s *environment) register(ctx context.Context, g *pg.Group, bytes int) error {
	for _, at := range s.gpu.stretches {
		t := colligo.OnDevice(s.gpu.device.Place(), uintptr(at), bytes, colligo.Uint8)
		if _, err := g.Register(ctx, t); err != nil {
			return err
		}
		if s.baseline == nil {
			continue
		}
		if err := s.baseline.register(at, bytes); err != nil {
			return err
		}
	}
	return nil
}

// begin runs the first all_reduce, which opens the backend, and takes the time.
func (s *environment) begin(ctx context.Context, g *pg.Group, p process) error {
	x := s.tensor(inputs, colligo.Float32, 1)
	err := s.gpu.onDevice(func(t cuda.Thread) error {
		return errors.Join(t.Set32(s.gpu.stretches[inputs], 0, 1, s.gpu.stream), t.Synchronize(s.gpu.stream))
	})
	if err != nil {
		return err
	}
	if err := g.AllReduce(ctx, x, colligo.Sum); err != nil {
		return err
	}
	err = s.gpu.onDevice(func(t cuda.Thread) error { return t.Synchronize(s.gpu.stream) })
	s.first = time.Since(p.began)
	return err
}

// leave ends what has to be ended before the group is closed.
func (s *environment) leave(failed bool) error {
	if s.external != nil {
		return s.external.close()
	}
	if s.baseline == nil {
		return nil
	}
	return s.baseline.close(failed)
}

// close gives the memory back, after the group was closed.
func (s *environment) close() error {
	if s.gpu == nil {
		return nil
	}
	return s.gpu.close()
}

// localRank is this rank's number among those of its host, as the launcher tells it. Ranks of one process have their number
// in the group.
func (o *options) localRank(g *pg.Group) (int, error) {
	if o.inOneProcess() {
		return g.Rank(), nil
	}
	return pg.LocalRank()
}

// largest returns the bytes of the largest tensor of any case.
func (o *options) largest() int {
	most := 0
	cases, err := o.cases()
	if err != nil {
		panic("bench: " + err.Error()) // check has refused it
	}
	for _, c := range cases {
		_, shown := c.shape(int(o.end), c.dtype.Size(), o.ranks)
		most = max(most, shown)
	}
	return most
}
