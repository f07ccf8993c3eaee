//go:build !race

package stream

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

func readVector(fd int, bufs [][]byte) (int, error)  { return vector(unix.SYS_READV, fd, bufs) }
func writeVector(fd int, bufs [][]byte) (int, error) { return vector(unix.SYS_WRITEV, fd, bufs) }

// vector moves bytes between a socket and the first few of some buffers. The runtime does not hear of the call. Else its monitor would
// look every 20 µs, and take the processor away from a goroutine whose call lasts longer. The socket does not block, so the call lasts no
// longer than the copy.
func vector(call uintptr, fd int, bufs [][]byte) (int, error) {
	var parts [4]unix.Iovec
	n := 0
	for _, b := range bufs {
		if len(b) > 0 && n < len(parts) {
			parts[n].Base = unsafe.SliceData(b)
			parts[n].SetLen(len(b))
			n++
		}
	}
	moved, _, errno := unix.RawSyscall(call, uintptr(fd), uintptr(unsafe.Pointer(&parts)), uintptr(n))
	if errno != 0 {
		return 0, errno
	}
	return int(moved), nil
}
