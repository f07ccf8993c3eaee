package model

import (
	"github.com/colligo-go/colligo/cuda/cudasim"
	"github.com/colligo-go/colligo/kernels/ptx"
)

// eager is ExchangeEager. It leaves out one kind of wait.
type eager struct{ without Wait }

// eagerSlot is the slot that a block serves.
type eagerSlot struct {
	*member
	of                        *ptx.Message
	part                      uint32
	at, bytes                 uint64
	data, arrived, free, tags uint64
	code                      uint32
}

func (m eager) exchange(l *cudasim.Launch) {
	a := cudasim.Args[ptx.EagerArgs](l)
	l.Each(func(b *cudasim.Block) {
		b.AwaitBefore()
		of := &member{Block: b, g: &ptx.GroupArgs{State: a.State, Abort: a.Abort}, grid: l.Grid}
		of.begin()
		for n := uint32(b.Index); ; n += l.Grid {
			x := newEagerSlot(of, a, n)
			switch {
			case x == nil:
				return
			case x.of.Receives != 0:
				m.receive(x)
			default:
				m.send(x)
			}
		}
	})
}

// newEagerSlot returns the slot of the n-th part of all messages, or nil if there are fewer parts.
func newEagerSlot(of *member, a *ptx.EagerArgs, n uint32) *eagerSlot {
	k := 0
	for ; k < len(a.Messages) && n >= a.Messages[k].Parts; k++ {
		n -= a.Messages[k].Parts
	}
	if k == len(a.Messages) {
		return nil
	}
	x := &eagerSlot{member: of, of: &a.Messages[k], part: n, code: 1}
	i, from := uint64((x.of.First+n)%x.of.Slots), uint64(n)*uint64(x.of.Part)
	x.at, x.bytes = x.of.At+from, within(from, uint64(x.of.Part), x.of.Bytes)
	x.data, x.arrived, x.free, x.tags = x.of.Data+i*uint64(x.of.Slot), x.of.Arrived+4*i, x.of.Free+4*i, x.of.Tags+8*i
	if n == 0 {
		x.code = x.of.Code
	}
	return x
}

func (m eager) send(x *eagerSlot) {
	if m.without != WaitForSlot {
		x.wait(int(x.of.Peer), func() bool { return x.LoadAcquire32(x.free) == 1 })
	}
	if x.aborted {
		return
	}
	x.move(x.data, x.at, x.bytes, lines(x.bytes)*line)
	x.StoreVolatile32(x.free, 0)
	if x.part == 0 {
		x.StoreVolatile32(x.tags, ptx.MostCode-x.code)
		x.StoreVolatile32(x.tags+4, x.of.Label)
	}
	x.StoreRelease32(x.arrived, x.code)
}

func (m eager) receive(x *eagerSlot) {
	if m.without != WaitForMessage {
		x.wait(int(x.of.Peer), func() bool {
			return x.LoadAcquire32(x.arrived) == x.code && (x.part != 0 || x.LoadVolatile32(x.tags) == ptx.MostCode-x.code)
		})
	}
	if x.aborted {
		return
	}
	x.write(x.at, x.read(x.data, lines(x.bytes), lines(x.bytes)*line), x.bytes)
	x.StoreVolatile32(x.arrived, 0)
	x.StoreRelease32(x.free, 1)
}
