package cudasim

import "encoding/binary"

const lineBytes = 16

// StoreSentinel stores data, padded with zeros, as lines of 16 bytes by the sentinel protocol. Each line is one volatile store. It proves
// that it has arrived by differing from the sentinel.
//
//go:norace
func (b *Block) StoreSentinel(addr uint64, data []byte) {
	n := (len(data) + lineBytes - 1) / lineBytes
	if n == 0 {
		return
	}
	m, at := b.at(addr, n*lineBytes, lineBytes)
	lines := m.data[at : at+n*lineBytes]
	clear(lines[copy(lines, data):])
	b.stored(m, at, n, validated)
}

// Clear stores the sentinel in n lines, by volatile stores. No other actor knows that they have come to memory until AwaitClear has waited
// for them, or the block has passed a fence.
//
//go:norace
func (b *Block) Clear(addr uint64, n int, sentinel [lineBytes]byte) {
	if n == 0 {
		return
	}
	m, at := b.at(addr, n*lineBytes, lineBytes)
	fill(m.data[at:at+n*lineBytes], sentinel[:])
	b.stored(m, at, n, clearing)
}

// stored ends the volatile stores of n lines.
//
//go:norace
func (b *Block) stored(m *memory, at, n int, kind accessKind) {
	b.task.sim.touch(b.accessor(), m, at, n*lineBytes, kind, true, b.task.actor.relaxed())
	b.task.breathe()
}

// LoadSentinel loads lines that StoreSentinel has stored. It returns false if a line is still the sentinel; data is then undefined.
//
//go:norace
func (b *Block) LoadSentinel(addr uint64, data []byte, sentinel [lineBytes]byte) bool {
	n := (len(data) + lineBytes - 1) / lineBytes
	if n == 0 {
		return true
	}
	m, at := b.at(addr, n*lineBytes, lineBytes)
	lines := m.data[at : at+n*lineBytes]
	first, second := binary.NativeEndian.Uint64(sentinel[:]), binary.NativeEndian.Uint64(sentinel[8:])
	for i := 0; i < len(lines); i += lineBytes {
		if binary.NativeEndian.Uint64(lines[i:]) == first && binary.NativeEndian.Uint64(lines[i+8:]) == second {
			b.task.look(m, at, at+n*lineBytes)
			return false
		}
	}
	copy(data, lines)
	m.stamps(at, at+n*lineBytes, b.task.actor.observe)
	b.task.sim.touch(b.accessor(), m, at, n*lineBytes, validated, false, nil)
	return true
}

// AwaitClear waits until n lines that the block has cleared have come to memory. They are there before all later stores of the block.
//
//go:norace
func (b *Block) AwaitClear(addr uint64, n int) {
	if n == 0 {
		return
	}
	m, at := b.at(addr, n*lineBytes, lineBytes)
	b.stored(m, at, n, validated)
}
