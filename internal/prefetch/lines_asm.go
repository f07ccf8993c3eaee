//go:build (amd64 || arm64) && !noasm

package prefetch

import "unsafe"

// lines asks for so many lines of memory.
//
//go:noescape
func lines(p unsafe.Pointer, n uintptr)
