package peermem

import (
	"crypto/rand"
	"sync/atomic"
	"unsafe"
)

// TokenBytes is the size of a token.
const TokenBytes = 16

// Token is what a process has in its memory, so that a peer can tell that it reads the right one.
type Token [TokenBytes]byte

// NewToken makes a token that no other has.
func NewToken() *Token {
	words := new([TokenBytes / 8]uint64) // which are aligned, for Clear
	t := (*Token)(unsafe.Pointer(words))
	rand.Read(t[:]) // never fails
	return t
}

// Address is where the token lies. The caller keeps the token as long as peers may read it.
func (t *Token) Address() uint64 { return Address(t[:]) }

// Clear makes every later read fail, and those that are under way.
func (t *Token) Clear() {
	for i := range TokenBytes / 8 {
		(*atomic.Uint64)(unsafe.Pointer(&t[8*i])).Store(0)
	}
}

// Address is where bytes lie, as it goes to a peer. The caller keeps them there.
func Address(p []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(p)))) }
