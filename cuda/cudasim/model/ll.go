package model

import (
	"encoding/binary"

	"github.com/colligo-go/colligo/cuda/cudasim"
	"github.com/colligo-go/colligo/kernels/ptx"
)

// llBlock is a block of an LL kernel.
type llBlock struct {
	member
	flag uint32
}

// asLL runs f for all blocks of a launch.
func asLL(l *cudasim.Launch, g *ptx.GroupArgs, f func(*llBlock)) {
	l.Each(func(b *cudasim.Block) {
		b.AwaitBefore()
		p := &llBlock{member: newMember(b, g, l.Grid)}
		if p.flag = p.LoadVolatile32(g.State) + 1; p.flag == 0 {
			p.flag = 2
		}
		f(p)
	})
}

// arrive counts the block. The last block counts the operation.
func (p *llBlock) arrive() {
	if p.Add32(p.g.State+24, 1) == p.grid-1 {
		p.StoreVolatile32(p.g.State+24, 0)
		p.StoreVolatile32(p.g.State, p.flag)
	}
}

// slot returns where rank from's data lies in rank to's LL memory at base.
func (p *llBlock) slot(base uint64, from, to int) uint64 {
	return base + (uint64(p.flag&1)*uint64(p.g.Size-1)+slotOf(from, to))*uint64(p.g.LLSlot)
}

// put stores lines by LL from the i-th on, in planes that are span bytes apart. Like every store for a peer it is left out after an abort.
func (p *llBlock) put(slot, span, i uint64, b []byte) {
	if p.aborted {
		return
	}
	planes := make([]byte, len(b))
	lo, hi := planes[:len(b)/2], planes[len(b)/2:]
	for k := 0; k < len(b); k += line {
		copyHalf(lo[k/2:], b[k:])
		copyHalf(hi[k/2:], b[k+8:])
	}
	p.StoreLL(slot+line*i, lo, p.flag)
	p.StoreLL(slot+span+line*i, hi, p.flag)
}

// take waits for n lines from rank peer.
func (p *llBlock) take(slot, span, i, n uint64, peer int) []byte {
	lo, hi := make([]byte, n*line/2), make([]byte, n*line/2)
	p.wait(peer, func() bool { return p.LoadLL(slot+line*i, lo, p.flag) })
	p.wait(peer, func() bool { return p.LoadLL(slot+span+line*i, hi, p.flag) })
	b := make([]byte, n*line)
	for k := 0; k < len(b); k += line {
		copyHalf(b[k:], lo[k/2:])
		copyHalf(b[k+8:], hi[k/2:])
	}
	return b
}

// copyHalf copies the first half of a line.
func copyHalf(dst, src []byte) { binary.NativeEndian.PutUint64(dst, binary.NativeEndian.Uint64(src)) }

// exchangeLL models the kernel ExchangeLL, which sends each peer any bytes and receives any bytes from it (move.cu).
func exchangeLL(l *cudasim.Launch) {
	a := cudasim.Args[ptx.ExchangeArgs](l)
	asLL(l, &a.Group, func(p *llBlock) {
		span := uint64(p.g.LLSlot) / 2
		for d := 1; d < p.size(); d++ {
			all, slot := a.SendBytes[d], p.slot(p.g.LL[d], int(p.g.Rank), p.rankAt(d))
			p.mine(max(lines(all), 1), func(i, n uint64) {
				p.put(slot, span, i, p.read(a.Send[d]+line*i, n, within(line*i, n*line, all)))
			})
		}
		p.arrive()
		p.own(a)
		for d := 1; d < p.size(); d++ {
			q, all := p.rankAt(d), a.RecvBytes[d]
			slot := p.slot(p.g.LL[0], q, int(p.g.Rank))
			p.mine(max(lines(all), 1), func(i, n uint64) {
				p.write(a.Recv[d]+line*i, p.take(slot, span, i, n, q), within(line*i, n*line, all))
			})
		}
	})
}

// sendEven sends every peer its part. It returns the bytes between the two planes of LL data.
func (p *llBlock) sendEven(a *ptx.EvenArgs) (span uint64) {
	span = uint64(p.g.LLSlot) / 2
	for d := 1; d < p.size(); d++ {
		from, slot := a.In+uint64(p.rankAt(d))*a.Step, p.slot(p.g.LL[d], int(p.g.Rank), p.rankAt(d))
		p.mine(lines(a.Part), func(i, n uint64) { p.put(slot, span, i, p.read(from+line*i, n, n*line)) })
	}
	p.arrive()
	return span
}

// exchangeLLEven models the kernel ExchangeLLEven, which exchanges parts of one length (move.cu).
func exchangeLLEven(l *cudasim.Launch) {
	a := cudasim.Args[ptx.EvenArgs](l)
	asLL(l, &a.Group, func(p *llBlock) {
		span, rank := p.sendEven(a), uint64(p.g.Rank)
		p.mine(lines(a.Part), func(i, n uint64) {
			if in, out := a.In+rank*a.Step, a.Out+rank*a.Part; in != out {
				p.move(out+line*i, in+line*i, n*line, n*line)
			}
			for d := 1; d < p.size(); d++ {
				q := p.rankAt(d)
				p.write(a.Out+uint64(q)*a.Part+line*i, p.take(p.slot(p.g.LL[0], q, int(p.g.Rank)), span, i, n, q), n*line)
			}
		})
	})
}

// broadcastLL models the kernel BroadcastLL, by which the root sends all data to every peer (move.cu).
func broadcastLL(l *cudasim.Launch) {
	a := cudasim.Args[ptx.BroadcastArgs](l)
	asLL(l, &a.Group, func(p *llBlock) {
		span, rank, root := uint64(p.g.LLSlot)/2, int(p.g.Rank), p.rankAt(int(a.Root))
		sent := uint64(1)
		if root == rank {
			sent = lines(a.Bytes)
		}
		p.mine(sent, func(i, n uint64) {
			b := make([]byte, n*line)
			if root == rank {
				b = p.read(a.In+line*i, n, a.Bytes-line*i)
			}
			for d := 1; d < p.size(); d++ {
				p.put(p.slot(p.g.LL[d], rank, p.rankAt(d)), span, i, b)
			}
		})
		p.arrive()
		slot := func(q int) uint64 { return p.slot(p.g.LL[0], q, rank) }
		if root != rank {
			p.mine(lines(a.Bytes), func(i, n uint64) {
				p.write(a.Out+line*i, p.take(slot(root), span, i, n, root), a.Bytes-line*i)
			})
		}
		for d := 1; d < p.size(); d++ {
			if q := p.rankAt(d); q != root && p.Index == 0 {
				p.take(slot(q), span, 0, 1, q)
			}
		}
	})
}

// own copies the part that a rank sends to itself.
func (m *member) own(a *ptx.ExchangeArgs) {
	if a.Send[0] == a.Recv[0] {
		return
	}
	all := a.SendBytes[0]
	m.mine(lines(all), func(i, n uint64) {
		left := within(line*i, n*line, all)
		m.move(a.Recv[0]+line*i, a.Send[0]+line*i, left, left)
	})
}
