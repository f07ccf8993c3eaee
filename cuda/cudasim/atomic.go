package cudasim

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"
)

// Words of host memory may be looked at and changed by host code at any time, so they are taken atomically. Words of
// devices are the Sim's alone. Code that holds its lock may load and store them plainly, which is much faster where the
// program is built with Go's own race detector.

// word is the place of an aligned word of four bytes.
//
//go:norace
func (m *memory) word(at int) *uint32 { return (*uint32)(unsafe.Pointer(&m.data[at])) }

//go:norace
func (m *memory) get(at int) uint32 {
	if m.host() {
		return atomic.LoadUint32(m.word(at))
	}
	return *m.word(at)
}

// half and setHalf are for half a line of LL: data below, the flag above.
//
//go:norace
func (m *memory) half(at int) uint64 {
	if m.host() {
		return atomic.LoadUint64((*uint64)(unsafe.Pointer(&m.data[at])))
	}
	return binary.LittleEndian.Uint64(m.data[at:])
}

//go:norace
func (m *memory) setHalf(at int, v uint64) {
	if m.host() {
		atomic.StoreUint64((*uint64)(unsafe.Pointer(&m.data[at])), v)
		return
	}
	binary.LittleEndian.PutUint64(m.data[at:], v)
}

// change replaces a word by f of it, and returns the value before. f may be called more than once.
//
//go:norace
func (m *memory) change(at int, f func(uint32) uint32) uint32 {
	if !m.host() {
		before := *m.word(at)
		*m.word(at) = f(before)
		return before
	}
	for {
		before := atomic.LoadUint32(m.word(at))
		if atomic.CompareAndSwapUint32(m.word(at), before, f(before)) {
			return before
		}
	}
}

//go:norace
func (m *memory) swap(at int, v uint32) uint32 {
	return m.change(at, func(uint32) uint32 { return v })
}
