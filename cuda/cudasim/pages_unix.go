//go:build unix

package cudasim

import "golang.org/x/sys/unix"

// takePages returns zeroed memory for a device. It is not Go's, so pages cost nothing until they are written. Go's race
// detector keeps no shadow of it, and would find nothing in memory that the Sim's lock guards.
func takePages(bytes int) []byte {
	b, err := unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		panic("cudasim: no memory for a device: " + err.Error())
	}
	preferLargePages(b)
	return b
}

// givePages gives back pages of takePages.
func givePages(b []byte) { _ = unix.Munmap(b) }
