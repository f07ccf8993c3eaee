//go:build !(amd64 || arm64) || noasm

package flight

import "runtime"

// callers fills pcs with the return addresses on the stack. Some of the package's own may be before that in Add.
func callers(pcs []uintptr) int { return runtime.Callers(1, pcs) }
