package cudasim

import "bytes"

const lineBytes = 16

// StoreLines stores data, padded with zeros, as lines of 16 bytes. Each is one volatile store, which shows that it is there by
// not being what was there before, a blank line.
func (b *Block) StoreLines(addr uint64, data []byte) {
	b.storeLines(addr, (len(data)+lineBytes-1)/lineBytes, packet, func(line []byte, i int) {
		clear(line[copy(line, data[i*lineBytes:]):])
	})
}

// Blank makes n lines blank by volatile stores. When they have come to memory nobody else knows, until Blanked has read them or the
// block has passed a fence.
func (b *Block) Blank(addr uint64, n int, blank [lineBytes]byte) {
	b.storeLines(addr, n, blanking, func(line []byte, _ int) { copy(line, blank[:]) })
}

func (b *Block) storeLines(addr uint64, n int, kind accessKind, fill func(line []byte, i int)) {
	if n == 0 {
		return
	}
	m, at := b.at(addr, n*lineBytes, lineBytes)
	for i := range n {
		fill(m.data[at+i*lineBytes:][:lineBytes], i)
	}
	b.strand.sim.touch(b.who(), m, at, n*lineBytes, kind, true, b.strand.actor.relaxed())
	b.strand.breathe()
}

// LoadLines takes what StoreLines has stored, if no line is blank; else it returns false, and what is in data then means nothing.
func (b *Block) LoadLines(addr uint64, data []byte, blank [lineBytes]byte) bool {
	n := (len(data) + lineBytes - 1) / lineBytes
	if n == 0 {
		return true
	}
	m, at := b.at(addr, n*lineBytes, lineBytes)
	for i := range n {
		line := m.data[at+i*lineBytes:][:lineBytes]
		if bytes.Equal(line, blank[:]) {
			b.strand.look(m, at, at+n*lineBytes)
			return false
		}
		copy(data[i*lineBytes:], line)
	}
	m.stamps(at, at+n*lineBytes, b.strand.actor.observe)
	b.strand.sim.touch(b.who(), m, at, n*lineBytes, packet, false, nil)
	return true
}

// Blanked reads n lines that the block has made blank until it finds them so: they have come to memory then, before all that the
// block will store.
func (b *Block) Blanked(addr uint64, n int) {
	if n == 0 {
		return
	}
	m, at := b.at(addr, n*lineBytes, lineBytes)
	b.strand.sim.touch(b.who(), m, at, n*lineBytes, packet, true, b.strand.actor.relaxed())
	b.strand.breathe()
}
