package model

import (
	"github.com/colligo-go/colligo/cuda/cudasim"
	"github.com/colligo-go/colligo/kernels/ptx"
)

// Wait is one that a kernel by rows or lines, behind engines or of messages cannot do without, but for the zero Wait, which is none.
type Wait int

// The waits, first those of BroadcastRows.
const (
	WaitForRoom     Wait = iota + 1 // for the sign that the round before the last was taken
	WaitForLast                     // for the last sign, before a sender leaves
	WaitForStranger                 // for the last greeting, before a rank leaves
	WaitForGreeting                 // for the first greeting, before the second is signed

	WaitForBlank    // by lines: until what was made blank is read to be
	WaitForSign     // BroadcastLines: for the sign that a place is free again
	WaitForEntry    // for the first sign of the operation
	WaitForLastSign // before a sender leaves

	WaitForFreed // behind engines: before a head is sent
	WaitForTaken // before an engine sends what was folded here

	WaitForSlot // of a mailbox: until it is free
	WaitForMail // until a slot is full
)

// rowChain is BroadcastRows without a wait.
type rowChain struct{ without Wait }

// chained is a block of it.
type chained struct {
	*rows
	rowChain
	a                 *ptx.RowChainArgs
	before, after     int
	first, step       uint64 // of this block's warps, and all warps
	all, rounds, room uint64
}

func (c rowChain) broadcast(l *cudasim.Launch) {
	a, step := cudasim.Args[ptx.RowChainArgs](l), uint64(l.Threads)/32*uint64(l.Grid)
	all, rounds, room := rowRounds(a.Bytes, a.Slot, step)
	l.Each(func(b *cudasim.Block) {
		r := newRows(b, l.Grid, &a.Group, a.Slot, uint32(rounds))
		x := &chained{r, c, a, int(a.Before), int(a.After), uint64(b.Index) * uint64(b.Threads) / 32, step, all, rounds, room}
		x.arrive()
		x.run()
	})
}

// at returns where this rank's rows lie at the rank at place d, from where that rank's lie here.
func (x *chained) at(d int, number uint32) uint64 {
	return x.slot(x.a.Rows[d], int(x.g.Rank), x.rankAt(d), number)
}

func (x *chained) from(d int, number uint32) uint64 {
	return x.slot(x.a.Rows[0], x.rankAt(d), int(x.g.Rank), number)
}

const rowBytes = 128

// sign stores n signs from the i-th on at the rank at place d, unless this one was stopped. found waits for its, unless that
// is what is left out.
func (x *chained) sign(d int, i, n uint64, number uint32) {
	if !x.stopped {
		x.StoreRows(x.at(d, number)+rowBytes*i, make([]byte, n*ptx.RowData/4), number)
	}
}

func (x *chained) found(d int, i, n uint64, number uint32, w Wait) {
	if x.without == w {
		return
	}
	b := make([]byte, n*ptx.RowData/4)
	x.wait(x.rankAt(d), func() bool { return x.LoadRows(x.from(d, number)+rowBytes*i, b, number) })
}

// strangers calls f for the places of ranks that are not next to this one, in one block alone.
func (x *chained) strangers(f func(d int)) {
	for d := 1; d < x.size() && x.Index == int(x.grid)-1; d++ {
		if d != x.before && d != x.after {
			f(d)
		}
	}
}

func (x *chained) run() {
	mine := within(x.first, uint64(x.Threads)/32, x.all) // warps that have quads
	greeting, twice := x.flag, x.rounds%2 == 0
	x.strangers(func(d int) { x.sign(d, 0, 1, x.flag) })
	if x.before != 0 {
		x.sign(x.before, x.first, mine, x.flag)
	}
	for round := range x.rounds {
		number := x.flag + uint32(round)
		if x.after != 0 && round != 0 {
			x.found(x.after, x.first, mine, number-1, WaitForRoom)
		}
		x.relay(round*x.room, number)
		if x.before != 0 && number != x.last {
			x.sign(x.before, x.first, mine, number+1)
		}
		if twice && round == 0 {
			greeting = x.last
			x.strangers(func(d int) {
				x.found(d, 0, 1, x.flag, WaitForGreeting)
				x.sign(d, 0, 1, x.last)
			})
		}
	}
	if x.after != 0 {
		x.found(x.after, x.first, mine, x.last, WaitForLast)
	}
	x.strangers(func(d int) { x.found(d, 0, 1, greeting, WaitForStranger) })
}

// relay hands on and keeps this block's quads of a round.
func (x *chained) relay(start uint64, number uint32) {
	x.quads(min(x.room, x.all-start), func(i, n uint64) {
		var b []byte
		if x.before == 0 {
			b = x.readQuads(x.a.In, start+i, n, x.a.Bytes)
		} else {
			b = x.take(x.from(x.before, number), i, n, x.rankAt(x.before), number)
		}
		if x.stopped {
			return
		}
		if x.after != 0 {
			x.StoreRows(x.at(x.after, number)+ptx.RowQuad*i, b, number)
		}
		if x.before != 0 {
			x.writeQuads(x.a.Out, start+i, b, x.a.Bytes)
		}
	})
}
