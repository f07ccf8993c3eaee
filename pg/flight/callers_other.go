//go:build !(amd64 || arm64) || noasm

package flight

import (
	"runtime"
	"unsafe"
)

// walk fills pcs with the return addresses on the stack, and returns how many there are.
func walk(pcs *uintptr, n int) int { return runtime.Callers(1, unsafe.Slice(pcs, n)) }
