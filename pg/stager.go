package pg

import (
	"errors"
	"fmt"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/backend"
)

// staged carries out a call whose inputs and outputs are on the CPU: there, or on the device on which objects travel. F makes
// the call of tensors in their place.
func (o *objects) staged(ins, outs []colligo.Tensor, f func(ins, outs []colligo.Tensor) request) (source int, err error) {
	device := o.g.config.ObjectDevice
	if device.Kind == colligo.CPU || o.g.size == 1 {
		r := f(ins, outs)
		return o.g.do(o.ctx, &r)
	}
	b, err := BackendOf(o.ctx, o.g, device)
	if err != nil {
		return 0, err
	}
	s, ok := b.(backend.Stager)
	if !ok {
		return 0, fmt.Errorf("the backend of %v cannot carry objects: see Config.ObjectDevice", device)
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
				return 0, o.refuse("staging %s: %w", colligo.FormatBytes(int64(t.Size())), err)
			}
			there = append(there, x)
		}
	}
	r := f(there[:len(ins):len(ins)], there[len(ins):])
	return o.g.do(o.ctx, &r)
}

func (o *objects) allGatherInto(out, in colligo.Tensor) error {
	_, err := o.staged(single(in), single(out), func(ins, outs []colligo.Tensor) request {
		return o.g.allGatherInto(outs[0], ins[0])
	})
	return err
}

func (o *objects) gatherTo(outs []colligo.Tensor, in colligo.Tensor, root int) error {
	_, err := o.staged(single(in), outs, func(ins, outs []colligo.Tensor) request { return o.g.gather(outs, ins[0], nil, root) })
	return err
}

func (o *objects) scatterFrom(out colligo.Tensor, ins []colligo.Tensor, root int) error {
	_, err := o.staged(ins, single(out), func(ins, outs []colligo.Tensor) request { return o.g.scatter(outs[0], ins, nil, root) })
	return err
}

func (o *objects) broadcastFrom(t colligo.Tensor, root int) error {
	ins, outs := single(t), []colligo.Tensor(nil)
	if o.g.rank != root {
		ins, outs = nil, ins
	}
	_, err := o.staged(ins, outs, func(ins, outs []colligo.Tensor) request {
		return o.g.broadcast(append(ins, outs...)[0], root)
	})
	return err
}

func (o *objects) sendTo(t colligo.Tensor, to, tag int) error {
	_, err := o.staged(single(t), nil, func(ins, _ []colligo.Tensor) request { return o.g.send(ins[0], to, tag) })
	return err
}

func (o *objects) recvFrom(t colligo.Tensor, from, tag int) (source int, err error) {
	return o.staged(nil, single(t), func(_, outs []colligo.Tensor) request { return o.g.receive(outs[0], from, tag) })
}

func single(t colligo.Tensor) []colligo.Tensor { return []colligo.Tensor{t} }
