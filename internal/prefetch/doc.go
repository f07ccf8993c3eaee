// Package prefetch brings memory into the cache of the CPU before it is needed.
//
// Code that writes a little memory in each call, far from what it wrote in the call before, waits for each line of it. It waits longest
// for a line that another CPU has written. It waits at the next lock at the latest, for a lock lets no earlier write stand open. If the
// call before asks for the line, the line is there.
//
// Invariant: nothing is read or written, so the memory may be in use, and no program sees more than the time that it takes.
package prefetch

import "unsafe"

// lineBytes is the size of a line of memory.
const lineBytes = 64

// Next asks for the memory that the next call will write, and returns at once.
func Next[T any](p *T) { lines(unsafe.Pointer(p), max((unsafe.Sizeof(*p)+lineBytes-1)/lineBytes, 1)) }
