//go:build !noasm && linux

package shm

// nonTemporal is whether copyPast is there.
const nonTemporal = true

// copyPast copies n bytes, a multiple of 64, by stores that pass the caches, which are called non-temporal. Dst is a multiple of 16. The
// stores are done when it returns.
//
//go:noescape
func copyPast(dst, src *byte, n int)
