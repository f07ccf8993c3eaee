package model

import (
	"github.com/colligo-go/colligo/cuda/cudasim"
	"github.com/colligo-go/colligo/kernels/ptx"
)

// Wait names a wait that a kernel cannot do without. Tests leave it out and expect the simulator to notice. The zero Wait is none.
type Wait int

// The waits that a test can have a kernel leave out, first those of BroadcastLL128.
const (
	WaitForRoom     Wait = iota + 1 // for the credit that the round before the last was taken
	WaitForLast                     // for the last credit, before a sender leaves
	WaitForStranger                 // for the last greeting, before a rank leaves
	WaitForGreeting                 // for the first greeting, before the second is stored

	WaitForClear      // of the sentinel protocol: until cleared lines are read to be empty
	WaitForCredit     // BroadcastSentinel: for the credit that a slot is empty again
	WaitForEntry      // for the first credit of the operation
	WaitForLastCredit // for the last credit, before a sender leaves

	WaitForFreed // of a fused kernel: for credit, before a head is sent
	WaitForTaken // until a slice is folded, before an engine sends it

	WaitForSlot    // of an eager buffer: until a slot is free
	WaitForMessage // of an eager buffer: until a slot is full
)

// ll128Chain is BroadcastLL128. It leaves out one kind of wait.
type ll128Chain struct{ without Wait }

// chained is a block of ll128Chain.
type chained struct {
	*ll128Block
	ll128Chain
	a                 *ptx.LL128ChainArgs
	before, after     int
	first, step       uint64 // of this block's warps, and all warps
	all, rounds, room uint64
}

func (c ll128Chain) broadcast(l *cudasim.Launch) {
	a, step := cudasim.Args[ptx.LL128ChainArgs](l), uint64(l.Threads)/32*uint64(l.Grid)
	all, rounds, room := ll128Rounds(a.Bytes, a.Slot, step)
	l.Each(func(b *cudasim.Block) {
		r := newLL128(b, l.Grid, &a.Group, a.Slot, uint32(rounds))
		x := &chained{r, c, a, int(a.Before), int(a.After), uint64(b.Index) * uint64(b.Threads) / 32, step, all, rounds, room}
		x.arrive()
		x.run()
	})
}

// at returns the address of this rank's lines at the rank with peer index d. It has the address of that rank's lines here.
func (x *chained) at(d int, number uint32) uint64 {
	return x.slot(x.a.LL128[d], int(x.g.Rank), x.rankAt(d), number)
}

func (x *chained) from(d int, number uint32) uint64 {
	return x.slot(x.a.LL128[0], x.rankAt(d), int(x.g.Rank), number)
}

const ll128Bytes = 128

// postCredit stores n credits from the i-th on at the rank with peer index d, unless this rank was aborted. Its counterpart
// found waits for that rank's credits, unless that wait is left out.
func (x *chained) postCredit(d int, i, n uint64, number uint32) {
	if !x.aborted {
		x.StoreLL128(x.at(d, number)+ll128Bytes*i, make([]byte, n*ptx.LL128Data/4), number)
	}
}

func (x *chained) found(d int, i, n uint64, number uint32, w Wait) {
	if x.without == w {
		return
	}
	b := make([]byte, n*ptx.LL128Data/4)
	x.wait(x.rankAt(d), func() bool { return x.LoadLL128(x.from(d, number)+ll128Bytes*i, b, number) })
}

// strangers calls f, in one block alone, for the peer indices of the ranks that are no neighbours of this one.
func (x *chained) strangers(f func(d int)) {
	for d := 1; d < x.size() && x.Index == int(x.grid)-1; d++ {
		if d != x.before && d != x.after {
			f(d)
		}
	}
}

func (x *chained) run() {
	mine := within(x.first, uint64(x.Threads)/32, x.all) // warps that have warp chunks
	greeting, twice := x.flag, x.rounds%2 == 0
	x.strangers(func(d int) { x.postCredit(d, 0, 1, x.flag) })
	if x.before != 0 {
		x.postCredit(x.before, x.first, mine, x.flag)
	}
	for round := range x.rounds {
		number := x.flag + uint32(round)
		if x.after != 0 && round != 0 {
			x.found(x.after, x.first, mine, number-1, WaitForRoom)
		}
		x.forward(round*x.room, number)
		if x.before != 0 && number != x.last {
			x.postCredit(x.before, x.first, mine, number+1)
		}
		if twice && round == 0 {
			greeting = x.last
			x.strangers(func(d int) {
				x.found(d, 0, 1, x.flag, WaitForGreeting)
				x.postCredit(d, 0, 1, x.last)
			})
		}
	}
	if x.after != 0 {
		x.found(x.after, x.first, mine, x.last, WaitForLast)
	}
	x.strangers(func(d int) { x.found(d, 0, 1, greeting, WaitForStranger) })
}

// forward hands on and keeps this block's warp chunks of a round.
func (x *chained) forward(start uint64, number uint32) {
	x.chunks(min(x.room, x.all-start), func(i, n uint64) {
		var b []byte
		if x.before == 0 {
			b = x.readChunks(x.a.In, start+i, n, x.a.Bytes)
		} else {
			b = x.take(x.from(x.before, number), i, n, x.rankAt(x.before), number)
		}
		if x.aborted {
			return
		}
		if x.after != 0 {
			x.StoreLL128(x.at(x.after, number)+ptx.LL128Chunk*i, b, number)
		}
		if x.before != 0 {
			x.writeChunks(x.a.Out, start+i, b, x.a.Bytes)
		}
	})
}
