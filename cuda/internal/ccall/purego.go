//go:build (linux || windows) && (amd64 || arm64) && !(linux && amd64 && !noasm)

package ccall

import (
	"unsafe"

	"github.com/ebitengine/purego"
)

// Frame has what one call hands to C.
type Frame struct {
	// Words are the words of the next call.
	Words [MaxWords]uintptr
}

// Call calls a function of C with the frame's first n words, and returns its result.
func (f *Frame) Call(address uintptr, n int) int32 {
	r, _, _ := purego.SyscallN(address, f.Words[:n]...)
	return int32(r)
}

// Word calls fn, the address of a function by C's rules whose one argument points to a word that it writes. It returns the word, and the
// function's result.
func Word(fn uintptr) (word uintptr, result int32) {
	f := frames.Get().(*Frame)
	f.Words[0], f.Words[1] = uintptr(unsafe.Pointer(&f.Words[1])), 0
	result, word = f.Call(fn, 1), f.Words[1]
	frames.Put(f)
	return word, result
}
