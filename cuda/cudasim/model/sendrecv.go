package model

import (
	"github.com/colligo-go/colligo/cuda/cudasim"
	"github.com/colligo-go/colligo/kernels/ptx"
)

// The messages that a launch of SendRecv carries.
const (
	sends    = 1
	receives = 2
	both     = sends | receives
)

// sendRecv is Rendezvous and SendRecv. It leaves out one kind of wait.
type sendRecv struct{ without Wait }

func (w sendRecv) rendezvous(l *cudasim.Launch) {
	a := cudasim.Args[ptx.SendRecvArgs](l)
	l.Each(func(b *cudasim.Block) {
		b.AwaitBefore()
		m := &member{Block: b, g: &a.Out.Group}
		m.begin()
		w.announce(m, a)
		m.StoreVolatile32(a.Carried, w.await(m, a, both))
		m.StoreVolatile32(a.Carried+4, 0)
	})
}

// announce tells the peer that this rank is ready, and what it sends. Behind an aborted kernel it tells nothing.
func (w sendRecv) announce(m *member, a *ptx.SendRecvArgs) {
	x := &a.Sent
	at, tags := 4*uint64(x.First), x.Tags+8*uint64(x.First)
	if m.aborted {
		return
	}
	m.StoreVolatile32(a.PeerClearToSend, ptx.ClearToSendRecv)
	if w.without != WaitForSlot {
		m.wait(int(x.Peer), func() bool { return m.LoadAcquire32(x.Free+at) == 1 })
	}
	if m.aborted {
		return
	}
	m.StoreVolatile32(x.Free+at, 0)
	m.StoreVolatile32(tags, ptx.MostCode-x.Code)
	m.StoreVolatile32(tags+4, x.Label)
	m.StoreRelease32(x.Arrived+at, x.Code)
}

// await waits for one of the wanted messages, or for both if both are sure to come. It returns the messages that may be carried, or 0
// if it was aborted.
func (w sendRecv) await(m *member, a *ptx.SendRecvArgs, wanted uint32) (found uint32) {
	x := &a.Received
	at, tags := 4*uint64(x.First), x.Tags+8*uint64(x.First)
	m.wait(int(x.Peer), func() bool {
		found = 0
		if wanted&receives != 0 && m.LoadAcquire32(x.Arrived+at) == x.Code && m.LoadVolatile32(tags) == ptx.MostCode-x.Code {
			found = receives
		}
		ready := uint32(0)
		if wanted&sends != 0 {
			ready = m.LoadAcquire32(a.ClearToSend)
		}
		if ready == ptx.ClearToSend || ready == ptx.ClearToSendRecv {
			found |= sends
		}
		return found == wanted || found != 0 && ready != ptx.ClearToSendRecv
	})
	if m.aborted {
		return 0
	}
	if found&sends != 0 {
		m.StoreVolatile32(a.ClearToSend, 0)
	}
	if found&receives != 0 {
		m.StoreVolatile32(x.Arrived+at, 0)
		m.StoreRelease32(x.Free+at, 1)
	}
	return found
}

func (w sendRecv) carry(l *cudasim.Launch) {
	a := cudasim.Args[ptx.SendRecvArgs](l)
	last, chain := l.Grid-1, sentinelChain(w)
	l.Each(func(b *cudasim.Block) {
		b.AwaitBefore()
		now, i := b.LoadVolatile32(a.Carried+4*uint64(a.Second)), uint32(b.Index)
		switch {
		case i < a.Blocks:
			if now&sends != 0 {
				chain.handOn(b, &a.Out, b.Index, a.Blocks)
			}
		case i < last:
			if now&receives != 0 {
				chain.handOn(b, &a.In, int(i-a.Blocks), last-a.Blocks)
			}
		case a.Second == 0 && now != 0 && now != both:
			m := &member{Block: b, g: &a.Out.Group}
			m.begin()
			m.StoreVolatile32(a.Carried+4, w.await(m, a, both-now))
		}
	})
}
