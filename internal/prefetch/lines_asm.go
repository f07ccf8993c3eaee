//go:build (amd64 || arm64) && !noasm

package prefetch

import "unsafe"

// lines asks for n lines of memory, one at least.
//
//go:noescape
func lines(p unsafe.Pointer, n uintptr)
