package model

import (
	"github.com/colligo-go/colligo/cuda/cudasim"
	"github.com/colligo-go/colligo/kernels/ptx"
)

// foldTile folds the incoming tiles j of phase 0 and n bytes of user memory at mine, and stores the result at out. With push it also
// stores it as tile j of phase 1 at every peer.
func (f folder) foldTile(t *tiles, push bool, out, mine uint64, j uint32, n uint64, divisor uint32) {
	if n == 0 {
		return
	}
	sum := f.foldOf(t, mine, j, n, divisor)
	t.write(out, sum, n)
	for d := 1; push && d < t.size(); d++ {
		t.store(t.outgoing(1, d, j), sum, lines(n)*line)
	}
}

// foldOf returns the fold of the incoming tiles j of phase 0 and n bytes of user memory at mine.
func (f folder) foldOf(t *tiles, mine uint64, j uint32, n uint64, divisor uint32) []byte {
	all := make([][]byte, t.size())
	for q := range all {
		from := mine
		if d := t.peerIndexOf(q); d != 0 {
			from = t.incoming(0, d, j)
		}
		all[q] = t.Load(from, int(n))
	}
	return f.fold(all, n, divisor)
}

func (f folder) tiles(l *cudasim.Launch) {
	a := cudasim.Args[ptx.AllReduceArgs](l)
	asTiles(l, &a.Group, func(t *tiles) {
		tile := uint64(a.Tile)
		n := t.of(a.Part, a.Tile)
		count := func(int) uint32 { return n }
		start := func(d int, j uint32) uint64 { return uint64(t.rankAt(d))*a.Part + t.at(j, a.Tile) }
		length := func(d int, j uint32) uint64 {
			return within(start(d, j), min(tile, a.Part-t.at(j, a.Tile)), a.Bytes)
		}
		for j := uint32(0); n != 0 && j < n+2; j++ {
			if j < n {
				for d := 1; d < t.size(); d++ {
					t.push(t.outgoing(0, d, j), a.In+start(d, j), length(d, j))
				}
			}
			if j >= 1 && j-1 < n {
				if !t.await(0, j-1, count) {
					return
				}
				f.foldTile(t, true, a.Out+start(0, j-1), a.In+start(0, j-1), j-1, length(0, j-1), a.Divisor)
			}
			if j <= n {
				t.signalBoth(j, count)
			}
			if j >= 2 {
				if !t.await(1, j-2, count) {
					return
				}
				for d := 1; d < t.size(); d++ {
					t.pull(a.Out+start(d, j-2), t.incoming(1, d, j-2), length(d, j-2))
				}
			}
		}
		t.finish(count)
	})
}

// scatterTiles is ReduceScatterTiles. One team posts how many tiles it has pushed, the other how many it has folded.
func (f folder) scatterTiles(l *cudasim.Launch) {
	a := cudasim.Args[ptx.ReduceScatterArgs](l)
	asTeams(l, &a.Group, 2, func(t *tiles) {
		most := uint32(0)
		count := func(d int) uint32 {
			if d == 0 {
				return 0
			}
			return t.of(max(a.Bytes[d], a.Bytes[0]), a.Tile)
		}
		for d := 1; d < t.size(); d++ {
			most = max(most, count(d))
		}
		for j := range most {
			if t.Team == 0 {
				t.pushParts(a, j, count)
			} else {
				f.foldPart(t, a, j, count)
			}
			t.PostProgress(j + 1)
		}
		t.Sync()
		if t.Team == 0 {
			t.finish(count)
		}
	})
}

// pushParts pushes tile j of each peer's part when the other team has folded tile j-2, unless that team was aborted.
func (t *tiles) pushParts(a *ptx.ReduceScatterArgs, j uint32, count func(int) uint32) {
	if j >= 2 {
		t.AwaitProgress(1, j-1)
	}
	if !t.on() {
		return
	}
	at := t.at(j, a.Tile)
	for d := 1; d < t.size(); d++ {
		t.push(t.outgoing(0, d, j), a.In+a.Offset[d]+at, within(at, uint64(a.Tile), a.Bytes[d]))
	}
	t.signal(0, j, count)
}

func (f folder) foldPart(t *tiles, a *ptx.ReduceScatterArgs, j uint32, count func(int) uint32) {
	t.await(0, j, count)
	if j < t.of(a.Bytes[0], a.Tile) {
		at := t.at(j, a.Tile)
		f.foldTile(t, false, a.Out+at, a.In+a.Offset[0]+at, j, within(at, uint64(a.Tile), a.Bytes[0]), a.Divisor)
	}
}
