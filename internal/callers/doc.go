// Package callers takes the return addresses on the stack of a goroutine, as runtime.Callers does, in about a twentieth of the time. It is
// for code that notes where it was called from far more often than anyone asks for it.
//
// Invariants:
//
//  1. A walk takes no memory, and costs about a nanosecond for each caller.
//  2. From the addresses runtime.CallersFrames names every caller up to the last address, inlined callers included. Functions that carry
//     out go and defer statements can be among them.
//
// The package does not name callers: runtime.CallersFrames does, when it is asked to.
package callers

import "unsafe"

// Fill fills pcs with the return addresses on the stack, and returns how many there are. The first lies in the function that calls
// Fill.
//
//go:noinline
func Fill(pcs []uintptr) int {
	if len(pcs) == 0 {
		return 0
	}
	return walk(unsafe.SliceData(pcs), len(pcs))
}
