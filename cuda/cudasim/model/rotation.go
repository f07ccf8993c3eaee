package model

import (
	"github.com/colligo-go/colligo/cuda/cudasim"
	"github.com/colligo-go/colligo/kernels/ptx"
)

// enter posts number 1 to the rank with peer index d. The operations that it declares over ended before the kernel began.
func (t *tiles) enter(d int) {
	t.StoreVolatile32(t.flag(d, 1, int(t.g.Rank)), t.base[d]+1)
}

// level sets to the count the two flag words that a chain does not need. This rank sends to the rank with peer index d.
func (t *tiles) level(d int) {
	t.StoreVolatile32(t.flag(d, 1, int(t.g.Rank)), t.base[d])
	t.StoreVolatile32(t.flag(0, 0, t.rankAt(d)), t.base[d])
}

// post tells the rank with peer index d a number of this operation, reach waits for that rank's number.
func (t *tiles) post(phase, d int, n uint32) {
	t.StoreRelease32(t.flag(d, phase, int(t.g.Rank)), t.base[d]+n)
}

func (t *tiles) reach(phase, d int, n uint32) {
	q := t.rankAt(d)
	t.wait(q, func() bool { return int32(t.LoadAcquire32(t.flag(0, phase, q))-(t.base[d]+n)) >= 0 })
}

// deepest is the largest number of tiles of a pair that are sent and not yet used.
const deepest = 8

// slots computes where a block's n tiles of a pair lie. The last quiet tiles are the tiles whose use no rank confirms.
type slots struct {
	*tiles
	tile, pieces, n, quiet, depth uint32
}

func (t *tiles) slots(tile, pieces, n uint32) *slots {
	quiet := min(tileDepth*t.g.TileSlot/tile, deepest)
	return &slots{t, tile, pieces, n, quiet, min(pieces*quiet, deepest)}
}

// slotAt returns where a sender's tile j lies in the receiver's memory. from is the sender's peer index at the receiver.
func (s *slots) slotAt(memory uint64, from int, j uint32) uint64 {
	i := (s.n - 1 - j) % s.depth
	piece := uint64(s.Index)*uint64(s.pieces) + uint64(i/s.quiet^1)
	return memory + (piece*uint64(s.g.Size-1)+uint64(from-1))*tileDepth*uint64(s.g.TileSlot) + uint64(i%s.quiet*s.tile)
}

func (s *slots) out(d int, j uint32) uint64 { return s.slotAt(s.g.Tiles[d], s.size()-d, j) }

func (s *slots) in(d int, j uint32) uint64 { return s.slotAt(s.g.Tiles[0], d, j) }

// mayGo returns the number of phase 1 after which tile j may be sent.
func (s *slots) mayGo(j uint32) uint32 {
	if j < s.depth {
		return 1
	}
	return j - s.depth + 2
}

// mayEnd waits until the sender to the rank with peer index d may end. used posts that the tile j of that rank was used.
func (s *slots) mayEnd(d int) {
	if s.n > s.quiet {
		s.reach(1, d, s.n-s.quiet+1)
	}
}

func (s *slots) used(d int, j uint32) {
	if j+s.quiet < s.n && s.on() {
		s.post(1, d, j+2)
	}
}

// exchangeRotation models the kernel ExchangeRotation, which exchanges tiles with one peer after the other (rotation.h).
func exchangeRotation(l *cudasim.Launch) {
	a := cudasim.Args[ptx.ExchangeArgs](l)
	asTeams(l, &a.Group, 2, func(t *tiles) {
		n := t.of(a.SendBytes[1], a.Tile)
		s := t.slots(a.Tile, a.Pieces, n)
		switch {
		case n == 0:
		case t.Team == 0:
			s.sendRotation(a, n)
		default:
			s.receiveRotation(a, n)
		}
		t.Sync()
		if t.Team == 0 {
			t.finish(func(d int) uint32 { return min(uint32(d), 1) * n })
		}
	})
}

// sendRotation sends to one peer after the other, and waits until all tiles but the quiet ones are used.
//  1. Wait until the tile's slot is free, copy the tile into it, and announce it. An aborted block does neither.
//  2. Wait until all peers have used their tiles but the quiet ones.
func (s *slots) sendRotation(a *ptx.ExchangeArgs, n uint32) {
	for to := 1; to < s.size(); to++ {
		for j := range n {
			if s.reach(1, to, s.mayGo(j)); !s.on() {
				continue
			}
			at := s.at(j, a.Tile)
			s.push(s.out(to, j), a.Send[to]+at, within(at, uint64(a.Tile), a.SendBytes[1]))
			s.post(0, to, j+1)
		}
	}
	for to := 1; to < s.size(); to++ {
		s.mayEnd(to)
	}
}

// receiveRotation receives from one peer after the other:
//  3. Tell every peer that this rank is in the operation.
//  4. While the first peer's tiles come, copy the own part.
//  5. Wait for a tile, copy it to the output, and post that it has been used.
func (s *slots) receiveRotation(a *ptx.ExchangeArgs, n uint32) {
	for d := 1; d < s.size(); d++ {
		s.enter(d)
	}
	for from := s.size() - 1; from > 0; from-- {
		for j := range n {
			at := s.at(j, a.Tile)
			have := within(at, uint64(a.Tile), a.SendBytes[1])
			if from == s.size()-1 && a.Send[0] != a.Recv[0] && have != 0 {
				s.move(a.Recv[0]+at, a.Send[0]+at, have, have)
			}
			s.reach(0, from, j+1)
			s.pull(a.Recv[from]+at, s.in(from, j), have)
			s.used(from, j)
		}
	}
}

// exchangeDirect models the kernel ExchangeDirect, which stores parts in the peers' outputs between two barriers
// (rotation.h).
func exchangeDirect(l *cudasim.Launch) {
	a := cudasim.Args[ptx.DirectExchangeArgs](l)
	asTiles(l, &a.Group, func(t *tiles) {
		m := marks{a.Marks, a.Mark}
		for d := 1; d < t.size(); d++ {
			t.postMark(m, d)
			t.post(0, d, 1)
		}
		for d := 1; d < t.size(); d++ {
			t.reach(0, d, 1)
		}
		for d := 1; d < t.size() && t.on(); d++ {
			t.checkOne(m, d)
		}
		if !t.on() {
			return
		}
		for d := range t.size() {
			from, to, all := a.Send[d], a.Recv[d], a.SendBytes[d]
			if from == to {
				continue
			}
			t.mine(lines(all), func(i, n uint64) {
				left := within(line*i, n*line, all)
				t.move(to+line*i, from+line*i, left, left)
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

// broadcastChain models the kernel BroadcastChain, by which each rank hands tile after tile on to the next (rotation.h).
func broadcastChain(l *cudasim.Launch) {
	a := cudasim.Args[ptx.ChainArgs](l)
	asTiles(l, &a.Group, func(t *tiles) {
		n, before, after, direct := t.of(a.Bytes, a.Tile), int(a.Before), int(a.After), a.Direct != 0
		m, s := marks{a.Marks, a.Mark}, t.slots(a.Tile, a.Pieces, n)
		switch {
		case before == 0 || n == 0:
		case direct:
			t.postMark(m, before)
			t.post(1, before, 1)
		default:
			t.enter(before)
		}
		if after != 0 && n != 0 {
			t.level(after)
		}
		for j := range n {
			s.mayGive(a, m, j)
			if before != 0 {
				t.reach(0, before, j+1)
			}
			s.forward(a, j)
			if after != 0 && t.on() {
				t.post(0, after, j+1)
			}
			if before != 0 && !direct {
				s.used(before, j)
			}
		}
		if after != 0 && !direct && n != 0 {
			s.mayEnd(after)
		}
		t.finish(func(d int) uint32 {
			if d != 0 && (d == before || d == after) {
				return n
			}
			return 0
		})
	})
}

// mayGive waits until the next rank has room for tile j.
func (s *slots) mayGive(a *ptx.ChainArgs, m marks, j uint32) {
	after, direct := int(a.After), a.Direct != 0
	if after == 0 || direct && j > 0 {
		return
	}
	s.reach(1, after, s.mayGo(j))
	if direct && s.on() {
		s.checkOne(m, after)
	}
}

// forward keeps tile j and hands it on.
func (s *slots) forward(a *ptx.ChainArgs, j uint32) {
	at, before, after := s.at(j, a.Tile), int(a.Before), int(a.After)
	n := within(at, uint64(a.Tile), a.Bytes)
	if !s.on() || n == 0 {
		return
	}
	from := a.In + at
	if before != 0 && a.Direct == 0 {
		from = s.in(before, j)
	} else if before != 0 {
		from = a.Out + at
	}
	b := s.Load(from, int(n))
	if after != 0 && a.Direct != 0 {
		s.write(a.Next+at, b, n)
	} else if after != 0 {
		s.store(s.out(after, j), b, lines(n)*line)
	}
	if before != 0 && a.Direct == 0 {
		s.write(a.Out+at, b, n)
	}
}

// marks are the words by which ranks compare which memory they mean, of kernels that store in the peers' outputs.
type marks struct {
	at   uint64
	mark uint32
}

// postMark stores this rank's mark at a peer. checkOne aborts the block if a peer's mark differs.
func (t *tiles) postMark(m marks, d int) {
	t.StoreVolatile32(t.g.Flags[d]+m.at+4*uint64(t.Index*ptx.MaxRanks+int(t.g.Rank)), m.mark)
}

func (t *tiles) checkOne(m marks, d int) {
	q := t.rankAt(d)
	if t.LoadVolatile32(t.g.Flags[0]+m.at+4*uint64(t.Index*ptx.MaxRanks+q)) != m.mark {
		t.refuse(q)
	}
}
