// Package ccall calls functions of C without cgo, and without allocating. The words of a call and its result lie in a Frame, and
// frames are used again.
//
// On Linux with amd64 a call takes the runtime's own way to C. Elsewhere, and with the tag noasm, it goes through purego, which does more
// around a call than the way to C itself takes. A function that returns at once is called by a shorter way yet (Word).
package ccall

import "sync"

// MaxWords is how many words a call can have. NCCL's identity of 128 bytes, handed by value behind six others, needs 22.
const MaxWords = 24

// frames are for Words.
var frames = sync.Pool{New: func() any { return new(Frame) }}

// Words calls a function of C with words, and returns its result. An address of Go memory among them is the caller's to keep
// alive and in place, as the directive go:uintptrescapes does.
func Words(address uintptr, words ...uintptr) int32 {
	f := frames.Get().(*Frame)
	r := f.Call(address, copy(f.Words[:], words))
	frames.Put(f)
	return r
}
