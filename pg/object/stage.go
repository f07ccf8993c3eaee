package object

import (
	"context"
	"errors"
	"fmt"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/backend"
)

type deviceKey struct{}

// OnDevice returns a context whose object calls move their objects over a device, in place of Config.ObjectDevice. The CPU is
// allowed. All ranks of a call name devices of one kind. The backend of the device must be a backend.Stager, as those in
// cuda/peer and cuda/staged are. c10d: the argument device of broadcast_object_list, send_object_list and recv_object_list.
func OnDevice(ctx context.Context, d colligo.Device) context.Context {
	return context.WithValue(ctx, deviceKey{}, d)
}

// device returns where the objects of a call travel.
func (o *call) device() colligo.Device {
	if d, ok := o.ctx.Value(deviceKey{}).(colligo.Device); ok {
		return d
	}
	_, d := pg.ObjectsOf(o.g)
	return d
}

// staged carries out a call whose inputs and outputs are on the CPU: there, or on the device on which objects travel. F makes
// the call of tensors in their place.
func (o *call) staged(ins, outs []colligo.Tensor, f func(ins, outs []colligo.Tensor) error) (err error) {
	device := o.device()
	if device.Kind == colligo.CPU || o.g.Size() == 1 {
		return f(ins, outs)
	}
	b, err := pg.BackendOf(o.ctx, o.g, device)
	if err != nil {
		return err
	}
	s, ok := b.(backend.Stager)
	if !ok {
		return fmt.Errorf("the backend of %v cannot carry objects: see Config.ObjectDevice", device)
	}
	var there []colligo.Tensor
	defer func() {
		for i, t := range there {
			var back []byte
			if i >= len(ins) && err == nil {
				back = outs[i-len(ins)].CPUBytes()
			}
			err = errors.Join(err, s.Unstage(o.ctx, t, back))
		}
	}()
	for _, list := range [2][]colligo.Tensor{ins, outs} {
		for _, t := range list {
			x, err := s.Stage(o.ctx, t.CPUBytes(), t.DType())
			if err != nil {
				return o.refuse("staging %s: %w", colligo.FormatBytes(int64(t.Size())), err)
			}
			there = append(there, x)
		}
	}
	return f(there[:len(ins):len(ins)], there[len(ins):])
}

func (o *call) allGatherInto(out, in colligo.Tensor) error {
	return o.staged(single(in), single(out), func(ins, outs []colligo.Tensor) error {
		return o.g.AllGatherIntoTensor(o.ctx, outs[0], ins[0])
	})
}

func (o *call) gatherTo(outs []colligo.Tensor, in colligo.Tensor, root int) error {
	return o.staged(single(in), outs, func(ins, outs []colligo.Tensor) error { return o.g.Gather(o.ctx, outs, ins[0], root) })
}

func (o *call) scatterFrom(out colligo.Tensor, ins []colligo.Tensor, root int) error {
	return o.staged(ins, single(out), func(ins, outs []colligo.Tensor) error { return o.g.Scatter(o.ctx, outs[0], ins, root) })
}

func (o *call) broadcastFrom(t colligo.Tensor, root int) error {
	ins, outs := single(t), []colligo.Tensor(nil)
	if o.g.Rank() != root {
		ins, outs = nil, ins
	}
	return o.staged(ins, outs, func(ins, outs []colligo.Tensor) error {
		return o.g.Broadcast(o.ctx, append(ins, outs...)[0], root)
	})
}

func (o *call) sendTo(t colligo.Tensor, to, tag int) error {
	return o.staged(single(t), nil, func(ins, _ []colligo.Tensor) error { return o.g.Send(o.ctx, ins[0], to, tag) })
}

// recvFrom returns the rank that the tensor came from.
func (o *call) recvFrom(t colligo.Tensor, from, tag int) (source int, err error) {
	source = from
	err = o.staged(nil, single(t), func(_, outs []colligo.Tensor) (err error) {
		if from == colligo.NoRank {
			source, err = o.g.RecvAny(o.ctx, outs[0], tag)
			return err
		}
		return o.g.Recv(o.ctx, outs[0], from, tag)
	})
	return source, err
}

func single(t colligo.Tensor) []colligo.Tensor { return []colligo.Tensor{t} }
