package cudasim

import "bytes"

const lineBytes = 16

// StoreSentinel stores data, padded with zeros, as lines of 16 bytes. Each is one volatile store, which shows that it is there by
// not being what was there before, a cleared line.
func (b *Block) StoreSentinel(addr uint64, data []byte) {
	b.storeLines(addr, (len(data)+lineBytes-1)/lineBytes, validated, func(line []byte, i int) {
		clear(line[copy(line, data[i*lineBytes:]):])
	})
}

// Clear makes n lines cleared by volatile stores. When they have come to memory nobody else knows, until Blanked has read them or the
// block has passed a fence.
func (b *Block) Clear(addr uint64, n int, sentinel [lineBytes]byte) {
	b.storeLines(addr, n, clearing, func(line []byte, _ int) { copy(line, sentinel[:]) })
}

func (b *Block) storeLines(addr uint64, n int, kind accessKind, fill func(line []byte, i int)) {
	if n == 0 {
		return
	}
	m, at := b.at(addr, n*lineBytes, lineBytes)
	for i := range n {
		fill(m.data[at+i*lineBytes:][:lineBytes], i)
	}
	b.task.sim.touch(b.who(), m, at, n*lineBytes, kind, true, b.task.actor.relaxed())
	b.task.breathe()
}

// LoadSentinel takes what StoreSentinel has stored, if no line is cleared; else it returns false, and what is in data then means nothing.
func (b *Block) LoadSentinel(addr uint64, data []byte, sentinel [lineBytes]byte) bool {
	n := (len(data) + lineBytes - 1) / lineBytes
	if n == 0 {
		return true
	}
	m, at := b.at(addr, n*lineBytes, lineBytes)
	for i := range n {
		line := m.data[at+i*lineBytes:][:lineBytes]
		if bytes.Equal(line, sentinel[:]) {
			b.task.look(m, at, at+n*lineBytes)
			return false
		}
		copy(data[i*lineBytes:], line)
	}
	m.stamps(at, at+n*lineBytes, b.task.actor.observe)
	b.task.sim.touch(b.who(), m, at, n*lineBytes, validated, false, nil)
	return true
}

// AwaitClear reads n lines that the block has cleared until it finds them so: they have come to memory then, before all that the
// block will store.
func (b *Block) AwaitClear(addr uint64, n int) {
	if n == 0 {
		return
	}
	m, at := b.at(addr, n*lineBytes, lineBytes)
	b.task.sim.touch(b.who(), m, at, n*lineBytes, validated, true, b.task.actor.relaxed())
	b.task.breathe()
}
