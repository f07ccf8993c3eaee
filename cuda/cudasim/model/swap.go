package model

import (
	"github.com/colligo-go/colligo/cuda/cudasim"
	"github.com/colligo-go/colligo/kernels/ptx"
)

// What a launch of SwapLetters carries.
const (
	sends    = 1
	receives = 2
	swaps    = sends | receives
)

// swap is MeetLetters and SwapLetters without a wait.
type swap struct{ without Wait }

func (w swap) meet(l *cudasim.Launch) {
	a := cudasim.Args[ptx.SwapArgs](l)
	l.Each(func(b *cudasim.Block) {
		b.AwaitBefore()
		m := &member{Block: b, g: &a.Out.Group}
		w.tell(m, a)
		m.StoreVolatile32(a.Carries, w.await(m, a, swaps))
		m.StoreVolatile32(a.Carries+4, 0)
	})
}

// tell says that this rank is ready, and what it sends.
func (w swap) tell(m *member, a *ptx.SwapArgs) {
	x := &a.Sent
	at, tags := 4*uint64(x.First), x.Tags+8*uint64(x.First)
	m.StoreVolatile32(a.Meets, ptx.ReadyToMeet)
	if w.without != WaitForSlot {
		m.wait(int(x.Peer), func() bool { return m.LoadAcquire32(x.Free+at) == 1 })
	}
	if m.stopped {
		return
	}
	m.StoreVolatile32(x.Free+at, 0)
	m.StoreVolatile32(tags, ptx.MostCode-x.Code)
	m.StoreVolatile32(tags+4, x.Label)
	m.StoreRelease32(x.Arrived+at, x.Code)
}

// await waits for one of what is wanted, or for both if they are sure to come, and returns it: 0 if it was stopped.
func (w swap) await(m *member, a *ptx.SwapArgs, wanted uint32) (found uint32) {
	x := &a.Received
	at, tags := 4*uint64(x.First), x.Tags+8*uint64(x.First)
	m.wait(int(x.Peer), func() bool {
		found = 0
		if wanted&receives != 0 && m.LoadAcquire32(x.Arrived+at) == x.Code && m.LoadVolatile32(tags) == ptx.MostCode-x.Code {
			found = receives
		}
		ready := uint32(0)
		if wanted&sends != 0 {
			ready = m.LoadAcquire32(a.Ready)
		}
		if ready == ptx.ReadyToReceive || ready == ptx.ReadyToMeet {
			found |= sends
		}
		return found == wanted || found != 0 && ready != ptx.ReadyToMeet
	})
	if m.stopped {
		return 0
	}
	if found&sends != 0 {
		m.StoreVolatile32(a.Ready, 0)
	}
	if found&receives != 0 {
		m.StoreVolatile32(x.Arrived+at, 0)
		m.StoreRelease32(x.Free+at, 1)
	}
	return found
}

func (w swap) carry(l *cudasim.Launch) {
	a := cudasim.Args[ptx.SwapArgs](l)
	last, chain := l.Grid-1, lineChain(w)
	l.Each(func(b *cudasim.Block) {
		b.AwaitBefore()
		now, i := b.LoadVolatile32(a.Carries+4*uint64(a.Turn)), uint32(b.Index)
		switch {
		case i < a.Blocks:
			if now&sends != 0 {
				chain.handOn(b, &a.Out, b.Index, a.Blocks)
			}
		case i < last:
			if now&receives != 0 {
				chain.handOn(b, &a.In, int(i-a.Blocks), last-a.Blocks)
			}
		case a.Turn == 0 && now != 0 && now != swaps:
			m := &member{Block: b, g: &a.Out.Group}
			m.StoreVolatile32(a.Carries+4, w.await(m, a, swaps-now))
		}
	})
}
