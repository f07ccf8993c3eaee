//go:build unix

package cudasim

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// takePages returns zeroed memory for a device. It is not Go's: pages cost nothing until they are written, and Go's race
// detector, which has nothing to find in memory that the Sim's lock guards, keeps no shadow of it.
func takePages(bytes int) []byte {
	b, err := unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		panic("cudasim: no memory for a device: " + err.Error())
	}
	return b
}

// emptyPages gives whole pages back; the addresses stay readable. It reports whether they now hold zeros.
func emptyPages(b []byte) bool {
	return unix.Madvise(b, unix.MADV_DONTNEED) == nil && runtime.GOOS == "linux"
}

// givePages ends the life of what takePages returned.
func givePages(b []byte) { _ = unix.Munmap(b) }
