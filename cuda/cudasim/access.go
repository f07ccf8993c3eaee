package cudasim

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

const (
	llBytes = 16
	llData  = 8
)

// at reaches memory for the block, or ends the kernel.
//
//go:norace
func (b *Block) at(addr uint64, n, align int) (*memory, int) {
	o := b.task.op
	m, offset, t := o.process.reach(o.device, addr, n)
	if t != nil {
		panic(resultError{illegalAddress, fmt.Sprintf("block %d, %d bytes at %#x: %s", b.Index, n, addr, t.why)})
	}
	if addr%uint64(align) != 0 {
		panic(resultError{misalignedAddress, fmt.Sprintf("block %d, %#x is no multiple of %d", b.Index, addr, align)})
	}
	return m, offset
}

//go:norace
func (b *Block) accessor() accessor { return accessor{b.task.actor, b.task.op.origin, b.task.block} }

// Load reads n bytes by plain loads. The slice is the memory itself: it is read before the next Yield, and not written.
//
//go:norace
func (b *Block) Load(addr uint64, n int) []byte { return b.plain(addr, n, false) }

// Store writes n bytes by plain stores: the caller fills the slice, which is the memory itself, before the next Yield.
//
//go:norace
func (b *Block) Store(addr uint64, n int) []byte { return b.plain(addr, n, true) }

//go:norace
func (b *Block) plain(addr uint64, n int, write bool) []byte {
	if n == 0 {
		return nil
	}
	m, at := b.at(addr, n, 1)
	b.task.sim.touch(b.accessor(), m, at, n, plain, write, nil)
	return m.data[at : at+n : at+n]
}

// StoreRelease32 stores a word after all that the block has done: st.release.sys.
//
//go:norace
func (b *Block) StoreRelease32(addr uint64, v uint32) { b.store32(addr, v, b.task.actor.release) }

// StoreVolatile32 stores a word in no order with the accesses of the block since its last fence: st.volatile, or st.relaxed.sys.
//
//go:norace
func (b *Block) StoreVolatile32(addr uint64, v uint32) { b.store32(addr, v, b.task.actor.relaxed) }

//go:norace
func (b *Block) store32(addr uint64, v uint32, publish func() *stamp) {
	m, at := b.at(addr, 4, 4)
	before := m.swap(at, v)
	b.task.sim.post(b.accessor(), m, at, before, v, publish())
	b.task.breathe()
}

// LoadAcquire32 loads a word before all that the block will do: ld.acquire.sys. Each load returns the oldest value that
// memory order allows, and the next load the next value. So a word has to be polled, and a single look tells little.
//
//go:norace
func (b *Block) LoadAcquire32(addr uint64) uint32 {
	v := b.load32(addr, true)
	if v.published != nil {
		b.task.actor.join(v.published)
	}
	return v.value
}

// LoadVolatile32 loads a flag as ld.volatile and ld.relaxed.sys do. Unlike LoadAcquire32 it orders the accesses that the
// flag shows to be over only from the next fence on.
//
//go:norace
func (b *Block) LoadVolatile32(addr uint64) uint32 {
	v := b.load32(addr, false)
	if v.published != nil {
		b.task.actor.observe(v.published)
	}
	return v.value
}

//go:norace
func (b *Block) load32(addr uint64, acquire bool) loaded {
	m, at := b.at(addr, 4, 4)
	st := b.task
	v := st.sim.load(st.actor, m, at, acquire)
	if v.newest {
		st.look(m, at, at+4)
		st.saw(v.value)
	} else {
		st.paused = true // there is more to see: the next Yield does not wait
	}
	if !v.again {
		st.sim.touch(b.accessor(), m, at, 4, flag, false, nil)
	}
	return v
}

// Add32 adds to a word and returns the value before: atom.acq_rel.sys.add.
//
//go:norace
func (b *Block) Add32(addr uint64, delta uint32) uint32 {
	m, at := b.at(addr, 4, 4)
	s, a := b.task.sim, b.task.actor
	if w := s.word(m, at); w == nil {
		m.stamps(at, at+4, a.join)
	} else if last := w.values[len(w.values)-1]; last.published != nil {
		a.join(last.published)
	}
	before := m.change(at, func(v uint32) uint32 { return v + delta })
	s.post(b.accessor(), m, at, before, before+delta, a.release())
	b.task.breathe()
	return before
}

// Fence orders all that the block has done before all that it will do, for every device: fence.acq_rel.sys.
//
//go:norace
func (b *Block) Fence() { b.task.actor.fence() }

// StoreLL stores data, padded with zeros, as LL lines of 16 bytes: 4 of data, the flag, 4 of data, the flag. Each 16 bytes
// are one volatile store.
//
//go:norace
func (b *Block) StoreLL(addr uint64, data []byte, f uint32) {
	n := (len(data) + llData - 1) / llData
	if n == 0 {
		return
	}
	m, at := b.at(addr, n*llBytes, llBytes)
	if len(data) < n*llData {
		data = append(bytes.Clone(data), make([]byte, llData)...)
	}
	for i := range 2 * n {
		m.setHalf(at+8*i, uint64(f)<<32|uint64(binary.LittleEndian.Uint32(data[4*i:])))
	}
	published := b.task.actor.relaxed()
	b.task.sim.touch(b.accessor(), m, at, n*llBytes, validated, true, published)
	if m.host() {
		b.task.sim.hostsSee(published)
	}
	b.task.breathe()
}

// LoadLL loads data that StoreLL has stored with flag f. It returns false if a flag differs; data is then undefined.
//
//go:norace
func (b *Block) LoadLL(addr uint64, data []byte, f uint32) bool {
	n := (len(data) + llData - 1) / llData
	if n == 0 {
		return true
	}
	m, at := b.at(addr, n*llBytes, llBytes)
	whole := data
	if len(data) < n*llData {
		whole = make([]byte, n*llData)
	}
	for i := range 2 * n {
		half := m.half(at + 8*i)
		if uint32(half>>32) != f {
			b.task.look(m, at, at+n*llBytes)
			return false
		}
		binary.LittleEndian.PutUint32(whole[4*i:], uint32(half))
	}
	if len(data) < len(whole) {
		copy(data, whole)
	}
	m.stamps(at, at+n*llBytes, b.task.actor.observe)
	b.task.sim.touch(b.accessor(), m, at, n*llBytes, validated, false, nil)
	return true
}
