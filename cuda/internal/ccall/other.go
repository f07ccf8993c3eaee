//go:build !(linux || windows) || !(amd64 || arm64)

package ccall

import "fmt"

// Frame has what one call would hand to C.
type Frame struct {
	// Words are the words of the next call.
	Words [MaxWords]uintptr
}

// Call cannot be reached: no library is found on this system.
func (f *Frame) Call(address uintptr, _ int) int32 {
	panic(fmt.Sprintf("ccall: call of %#x on a system without libraries of NVIDIA", address))
}

// Words cannot be reached, either.
func Words(address uintptr, _ ...uintptr) int32 {
	panic(fmt.Sprintf("ccall: call of %#x on a system without libraries of NVIDIA", address))
}

// Word cannot be reached, either.
func Word(fn uintptr) (word uintptr, result int32) {
	panic(fmt.Sprintf("ccall: call of %#x on a system without libraries of NVIDIA", fn))
}
