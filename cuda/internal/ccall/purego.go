//go:build (linux || windows) && (amd64 || arm64) && !(linux && amd64 && !noasm)

package ccall

import "github.com/ebitengine/purego"

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
