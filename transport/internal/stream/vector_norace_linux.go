//go:build !race

package stream

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

func readVector(fd int, bufs [][]byte) (int, error) {
	return vector(unix.SYS_READV, unix.SYS_RECVFROM, fd, bufs)
}

func writeVector(fd int, bufs [][]byte) (int, error) {
	return vector(unix.SYS_WRITEV, unix.SYS_SENDTO, fd, bufs)
}

// vector moves bytes between a socket and the first few of some buffers. Single is the call for one buffer, which has less to do.
//
// The runtime does not hear of the call. Else its monitor would look every 20 µs, and take the processor away from a goroutine whose
// call lasts longer. The socket does not block, so the call lasts no longer than the copy.
func vector(call, single uintptr, fd int, bufs [][]byte) (int, error) {
	var parts [4]unix.Iovec
	n := 0
	for _, b := range bufs {
		if len(b) > 0 && n < len(parts) {
			parts[n].Base = unsafe.SliceData(b)
			parts[n].SetLen(len(b))
			n++
		}
	}
	var moved uintptr
	var errno unix.Errno
	if n == 1 {
		moved, _, errno = unix.RawSyscall6(single, uintptr(fd), uintptr(unsafe.Pointer(parts[0].Base)), uintptr(parts[0].Len), unix.MSG_NOSIGNAL, 0, 0)
	} else {
		moved, _, errno = unix.RawSyscall(call, uintptr(fd), uintptr(unsafe.Pointer(&parts)), uintptr(n))
	}
	if errno != 0 {
		return 0, errno
	}
	return int(moved), nil
}
