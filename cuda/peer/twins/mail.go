package twins

import (
	"github.com/colligo-go/colligo/cuda/cudasim"
	"github.com/colligo-go/colligo/kernels"
)

// mail is ExchangeMail without a wait.
type mail struct{ without Wait }

// mailSlot is a block of it.
type mailSlot struct {
	member
	of                        *kernels.Message
	turn                      uint32
	at, bytes                 uint64
	data, arrived, free, tags uint64
	code                      uint32
}

func (m mail) exchange(l *cudasim.Launch) {
	a := cudasim.Args[kernels.MailArgs](l)
	l.Each(func(b *cudasim.Block) {
		b.AwaitBefore()
		x := newMailSlot(member{Block: b, g: &kernels.GroupArgs{Stop: a.Stop}, grid: l.Grid}, a)
		if x.of.Receives != 0 {
			m.receive(x)
		} else {
			m.send(x)
		}
	})
}

func newMailSlot(of member, a *kernels.MailArgs) *mailSlot {
	x := &mailSlot{member: of, turn: uint32(of.Index), code: 1}
	for k := range a.Messages {
		x.of = &a.Messages[k]
		if x.turn < x.of.Blocks {
			break
		}
		x.turn -= x.of.Blocks
	}
	i, from := uint64((x.of.First+x.turn)%x.of.Slots), uint64(x.turn)*uint64(x.of.Slot)
	x.at, x.bytes = x.of.At+from, within(from, uint64(x.of.Slot), x.of.Bytes)
	x.data, x.arrived, x.free, x.tags = x.of.Data+i*uint64(x.of.Slot), x.of.Arrived+4*i, x.of.Free+4*i, x.of.Tags+8*i
	if x.turn == 0 {
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
		x.StoreVolatile32(x.tags, kernels.MostCode-x.code)
		x.StoreVolatile32(x.tags+4, x.of.Label)
	}
	x.StoreRelease32(x.arrived, x.code)
}

func (m mail) receive(x *mailSlot) {
	if m.without != WaitForMail {
		x.wait(int(x.of.Peer), func() bool {
			return x.LoadAcquire32(x.arrived) == x.code && (x.turn != 0 || x.LoadVolatile32(x.tags) == kernels.MostCode-x.code)
		})
	}
	if x.stopped {
		return
	}
	x.write(x.at, x.read(x.data, lines(x.bytes), lines(x.bytes)*line), x.bytes)
	x.StoreVolatile32(x.arrived, 0)
	x.StoreRelease32(x.free, 1)
}
