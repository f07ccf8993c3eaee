package model

import (
	"github.com/colligo-go/colligo/cuda/cudasim"
	"github.com/colligo-go/colligo/kernels/ptx"
)

// mail is ExchangeMail without a wait.
type mail struct{ without Wait }

// mailSlot is a slot at a block of it.
type mailSlot struct {
	*member
	of                        *ptx.Message
	turn                      uint32
	at, bytes                 uint64
	data, arrived, free, tags uint64
	code                      uint32
}

func (m mail) exchange(l *cudasim.Launch) {
	a := cudasim.Args[ptx.MailArgs](l)
	l.Each(func(b *cudasim.Block) {
		b.AwaitBefore()
		of := &member{Block: b, g: &ptx.GroupArgs{Stop: a.Stop}, grid: l.Grid}
		for n := uint32(b.Index); ; n += l.Grid {
			x := newMailSlot(of, a, n)
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

// newMailSlot returns the n-th slot of all messages, nil if they have fewer.
func newMailSlot(of *member, a *ptx.MailArgs, n uint32) *mailSlot {
	k := 0
	for ; k < len(a.Messages) && n >= a.Messages[k].Parts; k++ {
		n -= a.Messages[k].Parts
	}
	if k == len(a.Messages) {
		return nil
	}
	x := &mailSlot{member: of, of: &a.Messages[k], turn: n, code: 1}
	i, from := uint64((x.of.First+n)%x.of.Slots), uint64(n)*uint64(x.of.Part)
	x.at, x.bytes = x.of.At+from, within(from, uint64(x.of.Part), x.of.Bytes)
	x.data, x.arrived, x.free, x.tags = x.of.Data+i*uint64(x.of.Slot), x.of.Arrived+4*i, x.of.Free+4*i, x.of.Tags+8*i
	if n == 0 {
		x.code = x.of.Code
	}
	return x
}

func (m mail) send(x *mailSlot) {
	if m.without != WaitForSlot {
		x.wait(int(x.of.Peer), func() bool { return x.LoadAcquire32(x.free) == 1 })
	}
	if x.stopped {
		return
	}
	x.write(x.data, x.read(x.at, lines(x.bytes), x.bytes), lines(x.bytes)*line)
	x.StoreVolatile32(x.free, 0)
	if x.turn == 0 {
		x.StoreVolatile32(x.tags, ptx.MostCode-x.code)
		x.StoreVolatile32(x.tags+4, x.of.Label)
	}
	x.StoreRelease32(x.arrived, x.code)
}

func (m mail) receive(x *mailSlot) {
	if m.without != WaitForMail {
		x.wait(int(x.of.Peer), func() bool {
			return x.LoadAcquire32(x.arrived) == x.code && (x.turn != 0 || x.LoadVolatile32(x.tags) == ptx.MostCode-x.code)
		})
	}
	if x.stopped {
		return
	}
	x.write(x.at, x.read(x.data, lines(x.bytes), lines(x.bytes)*line), x.bytes)
	x.StoreVolatile32(x.arrived, 0)
	x.StoreRelease32(x.free, 1)
}
