//go:build (amd64 || arm64) && !noasm

package flight

// walk fills pcs with the return addresses on the stack, from that in the function that calls it on, and returns how
// many there are. Go keeps frame pointers on these machines, of which this follows the chain; runtime.Callers, which
// needs none, takes 20 times as long. A goroutine is not stopped in assembly, so its stack does not move meanwhile.
//
//go:noescape
func walk(pcs *uintptr, n int) int
