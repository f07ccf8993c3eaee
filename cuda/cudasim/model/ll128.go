package model

import (
	"github.com/colligo-go/colligo/cuda/cudasim"
	"github.com/colligo-go/colligo/kernels/ptx"
)

// ll128Block is a block of an LL128 kernel.
type ll128Block struct {
	member
	slotBytes  uint64
	flag, last uint32 // numbers of the first and the last round
}

// asLL128 runs f for all blocks of a launch of so many rounds.
func asLL128(l *cudasim.Launch, rounds uint32, f func(*ll128Block, *ptx.LL128Args)) {
	a := cudasim.Args[ptx.LL128Args](l)
	l.Each(func(b *cudasim.Block) { f(newLL128(b, l.Grid, &a.Group, a.Slot, rounds), a) })
}

// newLL128 begins with a block of a launch of so many rounds.
func newLL128(b *cudasim.Block, grid uint32, g *ptx.GroupArgs, slot, rounds uint32) *ll128Block {
	b.AwaitBefore()
	r := &ll128Block{member: newMember(b, g, grid), slotBytes: uint64(slot)}
	r.flag = r.LoadVolatile32(g.State+8) + 1
	if r.flag == 0 || r.flag+rounds-1 < r.flag {
		r.flag = 2 + r.flag&1
	}
	r.last = r.flag + rounds - 1
	return r
}

// arrive counts the block. The last block counts the operation.
func (r *ll128Block) arrive() {
	if r.Add32(r.g.State+12, 1) == r.grid-1 {
		r.StoreVolatile32(r.g.State+12, 0)
		r.StoreVolatile32(r.g.State+8, r.last)
	}
}

// slot returns where rank from's lines of a round lie in rank to's LL128 memory at base.
func (r *ll128Block) slot(base uint64, from, to int, number uint32) uint64 {
	return base + (uint64(number&1)*uint64(r.g.Size-1)+slotOf(from, to))*r.slotBytes
}

func ll128Chunks(n uint64) uint64 { return (n + ptx.LL128Data - 1) / ptx.LL128Data }

// chunks calls f for the runs of warp chunks that belong to this block's warps.
func (r *ll128Block) chunks(all uint64, f func(first, n uint64)) {
	warps := uint64(r.Threads) / 32
	for i := uint64(r.Index) * warps; i < all; i += warps * uint64(r.grid) {
		f(i, min(warps, all-i))
	}
}

// readChunks returns n warp chunks of user memory from the i-th on. Bytes behind the end are 0.
func (r *ll128Block) readChunks(p, i, n, all uint64) []byte {
	b := make([]byte, n*ptx.LL128Data)
	copy(b, r.Load(p+ptx.LL128Data*i, int(within(ptx.LL128Data*i, n*ptx.LL128Data, all))))
	return b
}

func (r *ll128Block) writeChunks(p, i uint64, b []byte, all uint64) {
	r.write(p+ptx.LL128Data*i, b, within(ptx.LL128Data*i, uint64(len(b)), all))
}

// put stores warp chunks from the i-th on in a slot, unless the block was aborted.
func (r *ll128Block) put(slot, i uint64, b []byte, number uint32) {
	if !r.aborted {
		r.StoreLL128(slot+ptx.LL128Chunk*i, b, number)
	}
}

// take waits for n warp chunks from rank peer.
func (r *ll128Block) take(slot, i, n uint64, peer int, number uint32) []byte {
	b := make([]byte, n*ptx.LL128Data)
	r.wait(peer, func() bool { return r.LoadLL128(slot+ptx.LL128Chunk*i, b, number) })
	return b
}

// gatherLL128 folds n warp chunks of every peer's slot in this rank's memory, and this rank's own chunks, mine.
func (f folder) gatherLL128(r *ll128Block, own, i, n uint64, mine []byte, divisor, number uint32) []byte {
	all := make([][]byte, r.size())
	for q := range all {
		if q == int(r.g.Rank) {
			all[q] = mine
		} else {
			all[q] = r.take(r.slot(own, q, int(r.g.Rank), number), i, n, q, number)
		}
	}
	return f.fold(all, n*ptx.LL128Data, divisor)
}

// ll128Step is the warp chunks of a block in one step: the first chunk and their number, and their place and round.
type ll128Step struct {
	first, n, at uint64
	number       uint32
	mine         []byte
}

// ll128Rounds returns the number of warp chunks that all warps move, the number of rounds, and the places in one round.
func ll128Rounds(bytes uint64, slot uint32, step uint64) (all, rounds, room uint64) {
	all, rounds, room = ll128Chunks(bytes), 1, uint64(slot)/ptx.LL128Chunk
	if all > room {
		room = room / step * step
		all = (all + step - 1) / step * step
		rounds = (all + room - 1) / room
	}
	return all, rounds, room
}

// ll128 models the kernel AllReduceLL128, the one-shot all-reduce by LL128 (ll128.cu).
func (f folder) ll128(l *cudasim.Launch) {
	step := uint64(l.Threads) / 32 * uint64(l.Grid)
	of := cudasim.Args[ptx.LL128Args](l)
	all, rounds, room := ll128Rounds(of.Bytes, of.Slot, step)
	asLL128(l, uint32(rounds), func(r *ll128Block, a *ptx.LL128Args) {
		var before ll128Step
		r.chunks(all, func(i, n uint64) {
			t := ll128Step{i, n, i % room, r.flag + uint32(i/room), r.readChunks(a.In, i, n, a.Bytes)}
			f.takeLL128(r, a, &before)
			for d := 1; d < r.size(); d++ {
				r.put(r.slot(a.LL128[d], int(r.g.Rank), r.rankAt(d), t.number), t.at, t.mine, t.number)
			}
			before = t
		})
		r.arrive()
		f.takeLL128(r, a, &before)
	})
}

// takeLL128 folds the warp chunks of a step.
func (f folder) takeLL128(r *ll128Block, a *ptx.LL128Args, t *ll128Step) {
	if t.n != 0 {
		r.writeChunks(a.Out, t.first, f.gatherLL128(r, a.LL128[0], t.at, t.n, t.mine, a.Divisor, t.number), a.Bytes)
	}
}

// ll128TwoShot models the kernel AllReduceLL128TwoShot, a reduce-scatter and an all-gather in one operation (ll128.cu).
func (f folder) ll128TwoShot(l *cudasim.Launch) {
	asLL128(l, 1, func(r *ll128Block, a *ptx.LL128Args) {
		results := ll128Chunks(a.Part) * ptx.LL128Chunk
		part := func(q int) (from, n uint64) {
			from = uint64(q) * a.Part
			return from, within(from, a.Part, a.Bytes)
		}
		for d := 1; d < r.size(); d++ {
			from, all := part(r.rankAt(d))
			r.chunks(ll128Chunks(all), func(i, n uint64) {
				r.put(r.slot(a.LL128[d], int(r.g.Rank), r.rankAt(d), r.flag), i, r.readChunks(a.In+from, i, n, all), r.flag)
			})
		}
		r.arrive()
		from, all := part(int(r.g.Rank))
		r.chunks(ll128Chunks(all), func(i, n uint64) {
			sum := f.gatherLL128(r, a.LL128[0], i, n, r.readChunks(a.In+from, i, n, all), a.Divisor, r.flag)
			for d := 1; d < r.size(); d++ {
				r.put(r.slot(a.LL128[d], int(r.g.Rank), r.rankAt(d), r.flag)+results, i, sum, r.flag)
			}
			r.writeChunks(a.Out+from, i, sum, all)
		})
		for d := 1; d < r.size(); d++ {
			q := r.rankAt(d)
			from, all := part(q)
			r.chunks(ll128Chunks(all), func(i, n uint64) {
				r.writeChunks(a.Out+from, i, r.take(r.slot(a.LL128[0], q, int(r.g.Rank), r.flag)+results, i, n, q, r.flag), all)
			})
		}
	})
}
