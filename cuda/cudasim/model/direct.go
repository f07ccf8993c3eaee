package model

import (
	"github.com/colligo-go/colligo/cuda/cudasim"
	"github.com/colligo-go/colligo/kernels/ptx"
)

// direct models the kernel AllReduceDirect, which pushes parts as tiles and stores results straight into the peers' outputs
// (direct.cu).
func (f folder) direct(l *cudasim.Launch) {
	a := cudasim.Args[ptx.DirectArgs](l)
	asTiles(l, &a.Group, func(t *tiles) {
		n := t.of(a.Part, a.Tile)
		count := func(int) uint32 { return n }
		start := func(d int, j uint32) uint64 { return uint64(t.rankAt(d))*a.Part + t.at(j, a.Tile) }
		length := func(d int, j uint32) uint64 {
			return within(start(d, j), min(uint64(a.Tile), a.Part-t.at(j, a.Tile)), a.Bytes)
		}
		for j := uint32(0); n != 0 && j < n+1; j++ {
			if j < n {
				for d := 1; d < t.size(); d++ {
					t.push(t.outgoing(0, d, j), a.In+start(d, j), length(d, j))
				}
			}
			if j == 0 {
				t.postMarks(a)
				t.signalBoth(0, count)
				continue
			}
			if !t.await(0, j-1, count) || j == 1 && !t.check(a) {
				return
			}
			f.foldOut(t, a, start(0, j-1), j-1, length(0, j-1))
			t.signalBoth(j, count)
		}
		if n != 0 {
			t.await(1, n-1, count)
		}
		t.finish(count)
	})
}

// foldOut folds the incoming tiles j and the n own bytes from start on, and stores the result in every rank's output.
func (f folder) foldOut(t *tiles, a *ptx.DirectArgs, start uint64, j uint32, n uint64) {
	if n == 0 {
		return
	}
	sum := f.foldOf(t, a.In+start, j, n, a.Divisor)
	for d := range t.size() {
		t.write(a.Outs[d]+start, sum, n)
	}
}

func (t *tiles) mark(a *ptx.DirectArgs, where, from int) uint64 {
	return t.g.Flags[where] + a.Marks + 4*uint64(t.Index*ptx.MaxRanks+from)
}

// postMarks stores this rank's mark at every peer.
func (t *tiles) postMarks(a *ptx.DirectArgs) {
	for d := 1; d < t.size(); d++ {
		t.StoreVolatile32(t.mark(a, d, int(t.g.Rank)), a.Mark)
	}
}

// check compares the peers' marks. It aborts the block and returns false if one differs.
func (t *tiles) check(a *ptx.DirectArgs) bool {
	for d := 1; d < t.size(); d++ {
		if q := t.rankAt(d); t.LoadVolatile32(t.mark(a, 0, q)) != a.Mark {
			t.refuse(q)
		}
	}
	return t.on()
}
