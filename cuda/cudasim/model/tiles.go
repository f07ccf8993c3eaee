package model

import (
	"github.com/colligo-go/colligo/cuda/cudasim"
	"github.com/colligo-go/colligo/kernels/ptx"
)

const tileDepth = 4

// tiles is a block of a tile kernel.
type tiles struct {
	member
	base   [ptx.MaxRanks]uint32 // by peer index: tiles of the pair before this operation
	broken *bool                // of the block: one of its teams was aborted
}

// asTiles runs f for all blocks of a launch.
func asTiles(l *cudasim.Launch, g *ptx.GroupArgs, f func(*tiles)) { asTeams(l, g, 1, f) }

// asTeams makes a model kernel of f, whose blocks consist of some teams. Behind an aborted kernel it does nothing.
func asTeams(l *cudasim.Launch, g *ptx.GroupArgs, teams int, f func(*tiles)) {
	behind, broken := make([]bool, l.Grid), make([]bool, l.Grid) // by block: a kernel before this one was aborted; this block was
	l.Teams(teams, func(b *cudasim.Block) {
		b.AwaitBefore()
		t := &tiles{member: newMember(b, g, l.Grid), broken: &broken[b.Index]}
		behind[b.Index] = behind[b.Index] || t.aborted
		for d := range t.size() {
			t.base[d] = t.LoadVolatile32(t.counter(d))
		}
		t.Sync()
		if !behind[b.Index] {
			f(t)
		}
	})
}

// on reports whether no team of the block was aborted. Otherwise none announces anything.
func (t *tiles) on() bool { return !*t.broken }

func (t *tiles) wait(peer int, condition func() bool) {
	t.member.wait(peer, condition)
	if t.aborted {
		*t.broken = true
	}
}

// refuse aborts the block because the mark of rank q differs.
func (t *tiles) refuse(q int) {
	t.stop()
	*t.broken = true
	t.StoreVolatile32(t.g.Abort+4*uint64(1+ptx.MaxRanks+q), 1)
	t.StoreVolatile32(t.g.Abort, 1)
}

func (t *tiles) counter(d int) uint64 {
	return t.g.State + 64 + 4*uint64(t.Index*ptx.MaxRanks+d)
}

// slot returns where tile j lies in the memory of the rank with peer index where. The other rank of the pair has peer index
// d. At the rank that has the memory, the sender's peer index is from.
func (t *tiles) slot(where, phase, from, d int, j uint32) uint64 {
	circle := (uint64(t.Index)*2+uint64(phase))*uint64(t.g.Size-1) + uint64(from-1)
	return t.g.Tiles[where] + (circle*tileDepth+uint64((t.base[d]+j)%tileDepth))*uint64(t.g.TileSlot)
}

func (t *tiles) outgoing(phase, d int, j uint32) uint64 {
	return t.slot(d, phase, t.size()-d, d, j)
}

func (t *tiles) incoming(phase, d int, j uint32) uint64 {
	return t.slot(0, phase, d, d, j)
}

func (t *tiles) flag(where, phase, from int) uint64 {
	return t.g.Flags[where] + 4*uint64((t.Index*2+phase)*ptx.MaxRanks+from)
}

// signal announces tile j to each peer that has more than j tiles by count. await waits for the peers' tiles j. It returns false if the
// block was aborted.
func (t *tiles) signal(phase int, j uint32, count func(d int) uint32) {
	for d := 1; d < t.size(); d++ {
		if j < count(d) {
			if phase == 0 && j == 0 {
				t.StoreVolatile32(t.flag(d, 1, int(t.g.Rank)), t.base[d])
			}
			t.StoreRelease32(t.flag(d, phase, int(t.g.Rank)), t.base[d]+j+1)
		}
	}
}

func (t *tiles) await(phase int, j uint32, count func(d int) uint32) bool {
	for d := 1; d < t.size(); d++ {
		if j < count(d) {
			q := t.rankAt(d)
			t.wait(q, func() bool {
				return int32(t.LoadAcquire32(t.flag(0, phase, q))-(t.base[d]+j+1)) >= 0
			})
		}
	}
	return t.on()
}

// signalBoth announces tile j of phase 0 and tile j-1 of phase 1.
func (t *tiles) signalBoth(j uint32, count func(d int) uint32) {
	t.Fence()
	for d := 1; d < t.size(); d++ {
		if j < count(d) {
			t.StoreVolatile32(t.flag(d, 0, int(t.g.Rank)), t.base[d]+j+1)
		}
		if j >= 1 && j-1 < count(d) {
			t.StoreVolatile32(t.flag(d, 1, int(t.g.Rank)), t.base[d]+j)
		}
	}
}

func (t *tiles) finish(count func(d int) uint32) {
	for d := range t.size() {
		t.StoreVolatile32(t.counter(d), t.base[d]+count(d))
	}
}

// push copies user memory to a slot in whole lines, pull the other way.
func (t *tiles) push(slot, from, n uint64) {
	if n > 0 {
		t.move(slot, from, n, lines(n)*line)
	}
}

func (t *tiles) pull(to, slot, n uint64) {
	t.move(to, slot, n, n)
}

// of returns how many tiles of n bytes belong to this block, at where its j-th tile begins.
func (t *tiles) of(n uint64, tile uint32) uint32 {
	all := (n + uint64(tile) - 1) / uint64(tile)
	if all <= uint64(t.Index) {
		return 0
	}
	return uint32((all-uint64(t.Index)-1)/uint64(t.grid) + 1)
}

func (t *tiles) at(j, tile uint32) uint64 {
	return (uint64(j)*uint64(t.grid) + uint64(t.Index)) * uint64(tile)
}

// exchangeTiles models the kernel ExchangeTiles, which exchanges tiles with all peers at once (move.cu).
func exchangeTiles(l *cudasim.Launch) {
	a := cudasim.Args[ptx.ExchangeArgs](l)
	asTiles(l, &a.Group, func(t *tiles) {
		tile, most := a.Tile, uint32(0)
		count := func(d int) uint32 {
			if d == 0 {
				return 0
			}
			return t.of(max(a.SendBytes[d], a.RecvBytes[d]), tile)
		}
		for d := 1; d < t.size(); d++ {
			most = max(most, count(d))
		}
		for j := uint32(0); most != 0 && j < most+1; j++ {
			if j < most {
				for d := 1; d < t.size(); d++ {
					t.push(t.outgoing(0, d, j), a.Send[d]+t.at(j, tile), within(t.at(j, tile), uint64(tile), a.SendBytes[d]))
				}
				t.signal(0, j, count)
			}
			if j == 0 {
				continue
			}
			if !t.await(0, j-1, count) {
				return
			}
			for d := 1; d < t.size(); d++ {
				at := t.at(j-1, tile)
				t.pull(a.Recv[d]+at, t.incoming(0, d, j-1), within(at, uint64(tile), a.RecvBytes[d]))
			}
		}
		t.finish(count)
		t.own(a)
	})
}
