package cudasim

import "encoding/binary"

const (
	rowBytes = 128
	rowData  = 120
)

// StoreRows stores data, padded with zeros, as rows of 128 bytes: 120 of data, the flag, the flag. Each is stored as one,
// by eight threads of a warp.
func (b *Block) StoreRows(addr uint64, data []byte, f uint32) {
	n := (len(data) + rowData - 1) / rowData
	if n == 0 {
		return
	}
	m, at := b.at(addr, n*rowBytes, rowBytes)
	for i := range n {
		row := m.data[at+i*rowBytes:][:rowBytes]
		clear(row[copy(row, data[i*rowData:min((i+1)*rowData, len(data))]):])
		binary.LittleEndian.PutUint64(row[rowData:], uint64(f)<<32|uint64(f))
	}
	b.strand.sim.touch(b.who(), m, at, n*rowBytes, packet, true, b.strand.actor.relaxed())
	b.strand.breathe()
}

// LoadRows takes what StoreRows has stored, if all flags are f; else it returns false, and what is in data then means
// nothing.
func (b *Block) LoadRows(addr uint64, data []byte, f uint32) bool {
	n := (len(data) + rowData - 1) / rowData
	if n == 0 {
		return true
	}
	m, at := b.at(addr, n*rowBytes, rowBytes)
	for i := range n {
		row := m.data[at+i*rowBytes:][:rowBytes]
		if binary.LittleEndian.Uint64(row[rowData:]) != uint64(f)<<32|uint64(f) {
			b.strand.look(m, at, at+n*rowBytes)
			return false
		}
		copy(data[i*rowData:], row[:rowData])
	}
	m.stamps(at, at+n*rowBytes, b.strand.actor.observe)
	b.strand.sim.touch(b.who(), m, at, n*rowBytes, packet, false, nil)
	return true
}
