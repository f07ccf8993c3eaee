package model

import (
	"github.com/colligo-go/colligo/cuda/cudasim"
	"github.com/colligo-go/colligo/kernels/ptx"
)

// rows is a block of a row kernel.
type rows struct {
	member
	slotBytes  uint64
	flag, last uint32 // numbers of the first and the last round
}

// asRows runs f for all blocks of a launch of so many rounds.
func asRows(l *cudasim.Launch, rounds uint32, f func(*rows, *ptx.RowsArgs)) {
	a := cudasim.Args[ptx.RowsArgs](l)
	l.Each(func(b *cudasim.Block) { f(newRows(b, l.Grid, &a.Group, a.Slot, rounds), a) })
}

// newRows begins with a block of a launch of so many rounds.
func newRows(b *cudasim.Block, grid uint32, g *ptx.GroupArgs, slot, rounds uint32) *rows {
	b.AwaitBefore()
	r := &rows{member: member{Block: b, g: g, grid: grid}, slotBytes: uint64(slot)}
	r.flag = r.LoadVolatile32(g.State+8) + 1
	if r.flag == 0 || r.flag+rounds-1 < r.flag {
		r.flag = 2 + r.flag&1
	}
	r.last = r.flag + rounds - 1
	return r
}

// arrive counts the block; the last one counts the operation.
func (r *rows) arrive() {
	if r.Add32(r.g.State+12, 1) == r.grid-1 {
		r.StoreVolatile32(r.g.State+12, 0)
		r.StoreVolatile32(r.g.State+8, r.last)
	}
}

// slot returns where rank from's rows of a round lie in rank to's row memory at base.
func (r *rows) slot(base uint64, from, to int, number uint32) uint64 {
	return base + (uint64(number&1)*uint64(r.g.Size-1)+slotOf(from, to))*r.slotBytes
}

func quads(n uint64) uint64 { return (n + ptx.RowData - 1) / ptx.RowData }

// quads calls f for the runs of quads that fall to this block's warps.
func (r *rows) quads(all uint64, f func(first, n uint64)) {
	warps := uint64(r.Threads) / 32
	for i := uint64(r.Index) * warps; i < all; i += warps * uint64(r.grid) {
		f(i, min(warps, all-i))
	}
}

// readQuads returns n quads of user memory from the i-th on; what lies behind the last of all bytes is 0.
func (r *rows) readQuads(p, i, n, all uint64) []byte {
	b := make([]byte, n*ptx.RowData)
	copy(b, r.Load(p+ptx.RowData*i, int(within(ptx.RowData*i, n*ptx.RowData, all))))
	return b
}

func (r *rows) writeQuads(p, i uint64, b []byte, all uint64) {
	r.write(p+ptx.RowData*i, b, within(ptx.RowData*i, uint64(len(b)), all))
}

// take waits for n quads from rank peer.
func (r *rows) take(slot, i, n uint64, peer int, number uint32) []byte {
	b := make([]byte, n*ptx.RowData)
	r.wait(peer, func() bool { return r.LoadRows(slot+ptx.RowQuad*i, b, number) })
	return b
}

// gather folds n quads of every rank's slot in the own memory, and mine at its place.
func (f folder) gatherRows(r *rows, own, i, n uint64, mine []byte, divisor, number uint32) []byte {
	all := make([][]byte, r.size())
	for q := range all {
		if q == int(r.g.Rank) {
			all[q] = mine
		} else {
			all[q] = r.take(r.slot(own, q, int(r.g.Rank), number), i, n, q, number)
		}
	}
	return f.fold(all, n*ptx.RowData, divisor)
}

// turn is a block's quads of one step: the first and their number, and their place and round.
type turn struct {
	first, n, at uint64
	number       uint32
	mine         []byte
}

// rowRounds returns how many quads all warps move together, in how many rounds, and how many places a round has.
func rowRounds(bytes uint64, slot uint32, step uint64) (all, rounds, room uint64) {
	all, rounds, room = quads(bytes), 1, uint64(slot)/ptx.RowQuad
	if all > room {
		room = room / step * step
		all = (all + step - 1) / step * step
		rounds = (all + room - 1) / room
	}
	return all, rounds, room
}

// rows is AllReduceRows.
func (f folder) rows(l *cudasim.Launch) {
	step := uint64(l.Threads) / 32 * uint64(l.Grid)
	of := cudasim.Args[ptx.RowsArgs](l)
	all, rounds, room := rowRounds(of.Bytes, of.Slot, step)
	asRows(l, uint32(rounds), func(r *rows, a *ptx.RowsArgs) {
		var before turn
		r.quads(all, func(i, n uint64) {
			t := turn{i, n, i % room, r.flag + uint32(i/room), r.readQuads(a.In, i, n, a.Bytes)}
			f.takeRows(r, a, &before)
			for d := 1; d < r.size(); d++ {
				r.StoreRows(r.slot(a.Rows[d], int(r.g.Rank), r.rankAt(d), t.number)+ptx.RowQuad*t.at, t.mine, t.number)
			}
			before = t
		})
		r.arrive()
		f.takeRows(r, a, &before)
	})
}

// takeRows folds the quads of a turn.
func (f folder) takeRows(r *rows, a *ptx.RowsArgs, t *turn) {
	if t.n != 0 {
		r.writeQuads(a.Out, t.first, f.gatherRows(r, a.Rows[0], t.at, t.n, t.mine, a.Divisor, t.number), a.Bytes)
	}
}

// rowsTwoShot is AllReduceRowsTwoShot.
func (f folder) rowsTwoShot(l *cudasim.Launch) {
	asRows(l, 1, func(r *rows, a *ptx.RowsArgs) {
		results := quads(a.Part) * ptx.RowQuad
		part := func(q int) (from, n uint64) {
			from = uint64(q) * a.Part
			return from, within(from, a.Part, a.Bytes)
		}
		for d := 1; d < r.size(); d++ {
			from, all := part(r.rankAt(d))
			r.quads(quads(all), func(i, n uint64) {
				r.StoreRows(r.slot(a.Rows[d], int(r.g.Rank), r.rankAt(d), r.flag)+ptx.RowQuad*i, r.readQuads(a.In+from, i, n, all), r.flag)
			})
		}
		r.arrive()
		from, all := part(int(r.g.Rank))
		r.quads(quads(all), func(i, n uint64) {
			sum := f.gatherRows(r, a.Rows[0], i, n, r.readQuads(a.In+from, i, n, all), a.Divisor, r.flag)
			for d := 1; d < r.size(); d++ {
				r.StoreRows(r.slot(a.Rows[d], int(r.g.Rank), r.rankAt(d), r.flag)+results+ptx.RowQuad*i, sum, r.flag)
			}
			r.writeQuads(a.Out+from, i, sum, all)
		})
		for d := 1; d < r.size(); d++ {
			q := r.rankAt(d)
			from, all := part(q)
			r.quads(quads(all), func(i, n uint64) {
				r.writeQuads(a.Out+from, i, r.take(r.slot(a.Rows[0], q, int(r.g.Rank), r.flag)+results, i, n, q, r.flag), all)
			})
		}
	})
}
