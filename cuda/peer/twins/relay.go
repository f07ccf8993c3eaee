package twins

import (
	"bytes"

	"github.com/colligo-go/colligo/cuda/cudasim"
	"github.com/colligo-go/colligo/kernels"
)

// post tells the rank at place d a number of this operation, reach waits for its.
func (t *tiles) post(phase, d int, n uint32) {
	t.StoreRelease32(t.flag(d, phase, int(t.g.Rank)), t.base[d]+n)
}

func (t *tiles) reach(phase, d int, n uint32) {
	q := t.rankAt(d)
	t.wait(q, func() bool { return int32(t.LoadAcquire32(t.flag(0, phase, q))-(t.base[d]+n)) >= 0 })
}

// exchangeTurns is ExchangeTurns.
func exchangeTurns(l *cudasim.Launch) {
	a := cudasim.Args[kernels.ExchangeArgs](l)
	asTiles(l, &a.Group, func(t *tiles) {
		all, tile := a.SendBytes[1], uint64(a.Tile)
		n := t.of(all, a.Tile)
		steps := n * uint32(t.size()-1)
		for s := uint32(0); n != 0 && s < steps+1; s++ {
			if s < steps {
				to, j := int(1+s/n), s%n
				if j >= 2 {
					t.reach(1, to, j-1)
				}
				at := t.at(j, a.Tile)
				t.push(t.outgoing(0, to, j), a.Send[to]+at, within(at, tile, all))
				t.post(0, to, j+1)
			}
			if s >= 1 {
				from, j := t.size()-1-int((s-1)/n), (s-1)%n
				t.reach(0, from, j+1)
				at := t.at(j, a.Tile)
				t.pull(a.Recv[from]+at, t.incoming(0, from, j), within(at, tile, all))
				if j+2 < n {
					t.post(1, from, j+1)
				}
			}
		}
		t.finish(func(d int) uint32 { return min(uint32(d), 1) * n })
		t.own(a)
	})
}

// exchangeDirect is ExchangeDirect.
func exchangeDirect(l *cudasim.Launch) {
	a := cudasim.Args[kernels.DirectExchangeArgs](l)
	asTiles(l, &a.Group, func(t *tiles) {
		m := marks{a.Marks, a.Mark}
		for d := 1; d < t.size(); d++ {
			t.tellOne(m, d)
			t.post(0, d, 1)
		}
		for d := 1; d < t.size(); d++ {
			t.reach(0, d, 1)
		}
		for d := 1; d < t.size() && !t.stopped; d++ {
			t.checkOne(m, d)
		}
		for d := range t.size() {
			from, to, all := a.Send[d], a.Recv[d], a.SendBytes[d]
			if t.stopped || from == to {
				continue
			}
			t.mine(lines(all), func(i, n uint64) {
				t.write(to+line*i, bytes.Clone(t.read(from+line*i, n, all-line*i)), all-line*i)
			})
		}
		for d := 1; d < t.size(); d++ {
			t.post(1, d, 1)
		}
		for d := 1; d < t.size(); d++ {
			t.reach(1, d, 1)
		}
		t.finish(func(d int) uint32 { return min(uint32(d), 1) })
	})
}

// broadcastChain is BroadcastChain.
func broadcastChain(l *cudasim.Launch) {
	a := cudasim.Args[kernels.ChainArgs](l)
	asTiles(l, &a.Group, func(t *tiles) {
		n, before, after, direct := t.of(a.Bytes, a.Tile), int(a.Before), int(a.After), a.Direct != 0
		m := marks{a.Marks, a.Mark}
		if before != 0 && n != 0 {
			if direct {
				t.tellOne(m, before)
			}
			t.post(1, before, 1)
		}
		for j := uint32(0); j < n; j++ {
			t.mayGive(a, m, j)
			if before != 0 {
				t.reach(0, before, j+1)
			}
			t.relay(a, j)
			if after != 0 {
				t.post(0, after, j+1)
			}
			if before != 0 && !direct && j >= 1 && j+2 < n {
				t.post(1, before, j+1)
			}
		}
		t.finish(func(d int) uint32 {
			if d != 0 && (d == before || d == after) {
				return n
			}
			return 0
		})
	})
}

// mayGive waits until tile j has a place on the next rank.
func (t *tiles) mayGive(a *kernels.ChainArgs, m marks, j uint32) {
	after := int(a.After)
	switch {
	case after == 0:
	case j == 0:
		t.reach(1, after, 1)
		if a.Direct != 0 && !t.stopped {
			t.checkOne(m, after)
		}
	case a.Direct == 0 && j >= 3:
		t.reach(1, after, j-1)
	}
}

// relay keeps tile j and hands it on.
func (t *tiles) relay(a *kernels.ChainArgs, j uint32) {
	at, before, after := t.at(j, a.Tile), int(a.Before), int(a.After)
	n := within(at, uint64(a.Tile), a.Bytes)
	if t.stopped || n == 0 {
		return
	}
	from := a.In + at
	if before != 0 && a.Direct == 0 {
		from = t.incoming(0, before, j)
	} else if before != 0 {
		from = a.Out + at
	}
	b := t.read(from, lines(n), n)
	if after != 0 && a.Direct != 0 {
		t.write(a.Next+at, b, n)
	} else if after != 0 {
		t.write(t.outgoing(0, after, j), b, lines(n)*line)
	}
	if before != 0 && a.Direct == 0 {
		t.write(a.Out+at, b, n)
	}
}

// marks are those of kernels that store in the peers' outputs.
type marks struct {
	at   uint64
	mark uint32
}

// tellOne stores this rank's mark at a peer, checkOne stops the block if that of a peer differs.
func (t *tiles) tellOne(m marks, d int) {
	t.StoreVolatile32(t.g.Flags[d]+m.at+4*uint64(t.Index*kernels.MaxRanks+int(t.g.Rank)), m.mark)
}

func (t *tiles) checkOne(m marks, d int) {
	q := t.rankAt(d)
	if t.LoadVolatile32(t.g.Flags[0]+m.at+4*uint64(t.Index*kernels.MaxRanks+q)) != m.mark {
		t.stopped = true
		t.StoreVolatile32(t.g.Stop+4*uint64(1+kernels.MaxRanks+q), 1)
		t.StoreVolatile32(t.g.Stop, 1)
	}
}
