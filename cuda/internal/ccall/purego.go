//go:build (linux || windows) && (amd64 || arm64) && !(linux && amd64 && !noasm)

package ccall

import (
	"sync"
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

// frames are for Words and Word. One on the stack would go to the heap, for purego keeps its words.
var frames = sync.Pool{New: func() any { return new(Frame) }}

// Words calls a function of C with words, and returns its result. An address of Go memory among them is the caller's to keep
// alive and in place, as the directive go:uintptrescapes does.
func Words(address uintptr, words ...uintptr) int32 {
	f := frames.Get().(*Frame)
	r := f.Call(address, copy(f.Words[:], words))
	frames.Put(f)
	return r
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
