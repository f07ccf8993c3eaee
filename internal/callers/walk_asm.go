//go:build (amd64 || arm64) && !noasm

package callers

// walk fills pcs with return addresses on the stack, and returns how many there are. The first lies in the caller of Fill. Go keeps frame
// pointers on these machines, and walk follows their chain. runtime.Callers, which needs none, takes some twenty times as long. A goroutine
// is not stopped in assembly, so its stack does not move meanwhile.
//
//go:noescape
func walk(pcs *uintptr, n int) int
