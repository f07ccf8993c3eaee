package twins

import (
	"github.com/colligo-go/colligo/cuda/cudasim"
	"github.com/colligo-go/colligo/kernels"
)

// rows is a block of a row kernel.
type rows struct {
	member
	slotBytes uint64
	flag      uint32
}

// asRows runs f for all blocks of a launch.
func asRows(l *cudasim.Launch, f func(*rows, *kernels.RowsArgs)) {
	a := cudasim.Args[kernels.RowsArgs](l)
	l.Each(func(b *cudasim.Block) {
		r := &rows{member: member{Block: b, g: &a.Group, grid: l.Grid}, slotBytes: uint64(a.Slot)}
		if r.flag = r.LoadVolatile32(a.Group.State+8) + 1; r.flag == 0 {
			r.flag = 2
		}
		f(r, a)
	})
}

// arrive counts the block; the last one counts the operation.
func (r *rows) arrive() {
	if r.Add32(r.g.State+12, 1) == r.grid-1 {
		r.StoreVolatile32(r.g.State+12, 0)
		r.StoreVolatile32(r.g.State+8, r.flag)
	}
}

// slot returns where rank from's rows lie in the row memory at base.
func (r *rows) slot(base uint64, from int) uint64 {
	return base + (uint64(r.flag&1)*uint64(r.g.Size)+uint64(from))*r.slotBytes
}

func quads(n uint64) uint64 { return (n + kernels.RowData - 1) / kernels.RowData }

// quads calls f for the runs of quads that fall to this block's warps.
func (r *rows) quads(all uint64, f func(first, n uint64)) {
	warps := uint64(r.Threads) / 32
	for i := uint64(r.Index) * warps; i < all; i += warps * uint64(r.grid) {
		f(i, min(warps, all-i))
	}
}

// readQuads returns n quads of user memory from the i-th on; what lies behind the last of all bytes is 0.
func (r *rows) readQuads(p, i, n, all uint64) []byte {
	b := make([]byte, n*kernels.RowData)
	copy(b, r.Load(p+kernels.RowData*i, int(within(kernels.RowData*i, n*kernels.RowData, all))))
	return b
}

func (r *rows) writeQuads(p, i uint64, b []byte, all uint64) {
	r.write(p+kernels.RowData*i, b, within(kernels.RowData*i, uint64(len(b)), all))
}

// take waits for n quads from rank peer.
func (r *rows) take(slot, i, n uint64, peer int) []byte {
	b := make([]byte, n*kernels.RowData)
	r.wait(peer, func() bool { return r.LoadRows(slot+kernels.RowQuad*i, b, r.flag) })
	return b
}

// gather folds n quads of every rank's slot, and mine at its place.
func (f folder) gatherRows(r *rows, slot0, i, n uint64, mine []byte, divisor uint32) []byte {
	all := make([][]byte, r.size())
	for q := range all {
		if q == int(r.g.Rank) {
			all[q] = mine
		} else {
			all[q] = r.take(slot0+uint64(q)*r.slotBytes, i, n, q)
		}
	}
	return f.fold(all, n*kernels.RowData, divisor)
}

// rows is AllReduceRows.
func (f folder) rows(l *cudasim.Launch) {
	asRows(l, func(r *rows, a *kernels.RowsArgs) {
		r.quads(quads(a.Bytes), func(i, n uint64) {
			b := r.readQuads(a.In, i, n, a.Bytes)
			for d := 1; d < r.size(); d++ {
				r.StoreRows(r.slot(a.Rows[d], int(r.g.Rank))+kernels.RowQuad*i, b, r.flag)
			}
		})
		r.arrive()
		slot0 := r.slot(a.Rows[0], 0)
		r.quads(quads(a.Bytes), func(i, n uint64) {
			r.writeQuads(a.Out, i, f.gatherRows(r, slot0, i, n, r.readQuads(a.In, i, n, a.Bytes), a.Divisor), a.Bytes)
		})
	})
}

// rowsTwoShot is AllReduceRowsTwoShot.
func (f folder) rowsTwoShot(l *cudasim.Launch) {
	asRows(l, func(r *rows, a *kernels.RowsArgs) {
		results := quads(a.Part) * kernels.RowQuad
		part := func(q int) (from, n uint64) {
			from = uint64(q) * a.Part
			return from, within(from, a.Part, a.Bytes)
		}
		for d := 1; d < r.size(); d++ {
			from, all := part(r.rankAt(d))
			r.quads(quads(all), func(i, n uint64) {
				r.StoreRows(r.slot(a.Rows[d], int(r.g.Rank))+kernels.RowQuad*i, r.readQuads(a.In+from, i, n, all), r.flag)
			})
		}
		r.arrive()
		slot0 := r.slot(a.Rows[0], 0)
		from, all := part(int(r.g.Rank))
		r.quads(quads(all), func(i, n uint64) {
			sum := f.gatherRows(r, slot0, i, n, r.readQuads(a.In+from, i, n, all), a.Divisor)
			for d := 1; d < r.size(); d++ {
				r.StoreRows(r.slot(a.Rows[d], int(r.g.Rank))+results+kernels.RowQuad*i, sum, r.flag)
			}
			r.writeQuads(a.Out+from, i, sum, all)
		})
		for d := 1; d < r.size(); d++ {
			q := r.rankAt(d)
			from, all := part(q)
			r.quads(quads(all), func(i, n uint64) {
				r.writeQuads(a.Out+from, i, r.take(r.slot(a.Rows[0], q)+results, i, n, q), all)
			})
		}
	})
}
