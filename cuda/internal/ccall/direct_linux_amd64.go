//go:build !noasm

package ccall

import (
	"unsafe"

	_ "github.com/ebitengine/purego" // makes the runtime ready for C
)

// Frame has what one call hands to C. Its layout is known to direct_linux_amd64.s.
type Frame struct {
	function uintptr
	// Words are the words of the next call.
	Words [MaxWords]uintptr
	stack uint64 // words that C gets on the stack, one more if they are odd, for the stack stays aligned to 16 bytes
}

// cgocall is the runtime's way to C, which purego uses too. It calls fn, the address of a function by C's rules, on the
// system's stack with arg, and returns its result.
//
//go:linkname cgocall runtime.cgocall
func cgocall(fn uintptr, arg unsafe.Pointer) int32

// cgocallFrame takes the same way with a Frame, which may lie on the goroutine's stack. That stack moves only if C calls Go, and nothing
// looks at the Frame after that.
//
//go:noescape
//go:linkname cgocallFrame runtime.cgocall
func cgocallFrame(fn uintptr, f unsafe.Pointer) int32

// frameAddress returns the address of a function by C's rules that takes a *Frame.
func frameAddress() uintptr

// registers is how many words go to C in registers.
const registers = 6

// Call calls a function of C with the frame's first n words, and returns its result.
func (f *Frame) Call(address uintptr, n int) int32 {
	f.function, f.stack = address, uint64(max(n-registers, 0)+1)&^1
	return cgocallFrame(frameAddress(), unsafe.Pointer(f))
}

// Words calls a function of C with words, and returns its result. An address of Go memory among them is the caller's to keep
// alive and in place, as the directive go:uintptrescapes does.
func Words(address uintptr, words ...uintptr) int32 {
	var f Frame
	return f.Call(address, copy(f.Words[:], words))
}

// Run calls fn, the address of a function by C's rules, on the system's stack with arg, which is memory of the heap.
func Run(fn uintptr, arg unsafe.Pointer) { cgocall(fn, arg) }

// Word calls fn, the address of a function by C's rules whose one argument points to a word that it writes. It returns the word,
// and the function's result. The runtime does not hear of the call, as it does not hear of its own calls for the time of day. So the
// function must return within a microsecond or so. It must wait for nothing, and call no Go.
func Word(fn uintptr) (word uintptr, result int32)
