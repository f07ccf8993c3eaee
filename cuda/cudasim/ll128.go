package cudasim

import "encoding/binary"

const (
	ll128Bytes = 128
	ll128Data  = 120
)

// StoreLL128 stores data, padded with zeros, as LL128 lines of 128 bytes: 120 of data, the flag, the flag. Eight threads of a warp store
// each line as one access.
//
//go:norace
func (b *Block) StoreLL128(addr uint64, data []byte, f uint32) {
	n := (len(data) + ll128Data - 1) / ll128Data
	if n == 0 {
		return
	}
	m, at := b.at(addr, n*ll128Bytes, ll128Bytes)
	for i := range n {
		row := m.data[at+i*ll128Bytes:][:ll128Bytes]
		clear(row[copy(row, data[i*ll128Data:min((i+1)*ll128Data, len(data))]):])
		binary.LittleEndian.PutUint64(row[ll128Data:], uint64(f)<<32|uint64(f))
	}
	b.task.sim.touch(b.accessor(), m, at, n*ll128Bytes, validated, true, b.task.actor.relaxed())
	b.task.breathe()
}

// LoadLL128 loads data that StoreLL128 has stored with flag f. It returns false if a flag differs; data is then undefined.
//
//go:norace
func (b *Block) LoadLL128(addr uint64, data []byte, f uint32) bool {
	n := (len(data) + ll128Data - 1) / ll128Data
	if n == 0 {
		return true
	}
	m, at := b.at(addr, n*ll128Bytes, ll128Bytes)
	for i := range n {
		row := m.data[at+i*ll128Bytes:][:ll128Bytes]
		if binary.LittleEndian.Uint64(row[ll128Data:]) != uint64(f)<<32|uint64(f) {
			b.task.look(m, at, at+n*ll128Bytes)
			return false
		}
		copy(data[i*ll128Data:], row[:ll128Data])
	}
	m.stamps(at, at+n*ll128Bytes, b.task.actor.observe)
	b.task.sim.touch(b.accessor(), m, at, n*ll128Bytes, validated, false, nil)
	return true
}
