package model

import (
	"encoding/binary"

	"github.com/colligo-go/colligo/cuda/cudasim"
	"github.com/colligo-go/colligo/kernels/ptx"
)

const line = 16 // bytes

func lines(n uint64) uint64 { return (n + line - 1) / line }

// within returns how many of the size bytes from start lie below end.
func within(start, size, end uint64) uint64 {
	if start >= end {
		return 0
	}
	return min(size, end-start)
}

// member is a block of a kernel of a group.
type member struct {
	*cudasim.Block
	g       *ptx.GroupArgs
	grid    uint32
	aborted bool
}

// orderWord is where in a rank's counters the order of its kernels is noted. Real kernels do not use the word.
const orderWord = 32

// newMember begins with a block of a kernel of a group, after AwaitBefore. The group's collectives are to follow one another on
// each rank, on whatever streams they are. Kernels that do not are a race, also where flags order
// every access of theirs to data: each kernel writes the order word.
func newMember(b *cudasim.Block, g *ptx.GroupArgs, grid uint32) member {
	m := member{Block: b, g: g, grid: grid}
	m.inOrder()
	m.begin()
	return m
}

// begin looks whether a kernel before this one was aborted. It then sends nothing either (watch.h).
func (m *member) begin() { m.aborted = m.LoadVolatile32(m.g.State+ptx.AbortedAt) != 0 }

// stop marks the block as aborted, and the kernels behind this one.
func (m *member) stop() {
	m.aborted = true
	m.StoreVolatile32(m.g.State+ptx.AbortedAt, ptx.Aborted)
}

func (m *member) inOrder() {
	if m.Index == 0 && m.Team == 0 {
		m.Store(m.g.State+orderWord, 4)
	}
}

// slotOf returns the index of rank from's slot among the slots of rank to, which has one for each peer.
func slotOf(from, to int) uint64 {
	if from < to {
		return uint64(from)
	}
	return uint64(from - 1)
}

// rankAt returns the rank at a peer index, peerIndexOf the peer index of a rank.
func (m *member) rankAt(d int) int { return (int(m.g.Rank) + d) % int(m.g.Size) }

func (m *member) peerIndexOf(q int) int { return (q - int(m.g.Rank) + int(m.g.Size)) % int(m.g.Size) }

func (m *member) size() int { return int(m.g.Size) }

// wait polls until the condition holds or the group is aborted. If aborted, it names the rank that it waited for.
func (m *member) wait(peer int, condition func() bool) {
	if !m.aborted && !m.until(condition) && !condition() {
		m.StoreVolatile32(m.g.Abort+4+4*uint64(peer), 1)
	}
}

// until polls until the condition holds or the group is aborted. It returns false if aborted.
func (m *member) until(condition func() bool) bool {
	for !condition() {
		if m.LoadVolatile32(m.g.Abort) != 0 {
			m.stop()
			return false
		}
		m.Yield()
	}
	return !m.aborted
}

// mine calls f for the runs of lines that belong to this block's threads.
func (m *member) mine(all uint64, f func(first, n uint64)) {
	step := uint64(m.Threads)
	for i := uint64(m.Index) * step; i < all; i += step * uint64(m.grid) {
		f(i, min(step, all-i))
	}
}

// read returns n lines of user memory at p. Only left bytes exist, and the others are 0.
func (m *member) read(p, n, left uint64) []byte {
	b := make([]byte, n*line)
	copy(b, m.Load(p, int(min(n*line, left))))
	return b
}

// write stores the first left bytes of b.
func (m *member) write(p uint64, b []byte, left uint64) {
	n := min(uint64(len(b)), left)
	copy(m.Store(p, int(n)), b)
}

// move copies n bytes of memory, and stores zeros behind them up to room bytes.
func (m *member) move(to, from, n, room uint64) { m.store(to, m.Load(from, int(n)), room) }

// store stores b, and zeros behind it up to room bytes.
func (m *member) store(p uint64, b []byte, room uint64) {
	all := m.Store(p, int(room))
	clear(all[copy(all, b):])
}

// fillLines models the kernel FillLines, which stores the same 16 bytes in every line of a span.
func fillLines(l *cudasim.Launch) {
	a := cudasim.Args[ptx.FillArgs](l)
	of := make([]byte, 0, line)
	for _, w := range a.Line {
		of = binary.NativeEndian.AppendUint32(of, w)
	}
	l.Each(func(b *cudasim.Block) {
		b.AwaitBefore()
		m := &member{Block: b, grid: l.Grid}
		m.mine(a.Lines, func(i, n uint64) {
			all := m.Store(a.Out+i*line, int(n*line))
			for done := copy(all, of); done < len(all); done *= 2 {
				copy(all[done:], all[:done])
			}
		})
	})
}

// copyBytes models the kernel CopyBytes, which copies bytes between any two addresses that a device sees.
func copyBytes(l *cudasim.Launch) {
	a := cudasim.Args[ptx.CopyArgs](l)
	l.Each(func(b *cudasim.Block) {
		b.AwaitBefore()
		m := &member{Block: b, grid: l.Grid}
		m.mine(lines(a.Bytes), func(i, n uint64) {
			at, left := i*line, within(i*line, n*line, a.Bytes)
			m.move(a.Out+at, a.In+at, left, left)
		})
	})
}
