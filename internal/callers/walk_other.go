//go:build !(amd64 || arm64) || noasm

package callers

import (
	"runtime"
	"unsafe"
)

// walk fills pcs with return addresses on the stack, and returns how many there are. The first lies in the caller of Fill.
func walk(pcs *uintptr, n int) int { return runtime.Callers(3, unsafe.Slice(pcs, n)) }
