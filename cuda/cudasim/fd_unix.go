//go:build unix

package cudasim

import (
	"os"

	"golang.org/x/sys/unix"
)

const descriptors = 1 // the attribute FileDescriptorHandles

// makeFD returns a descriptor that travels as any does: it is a file without a name that holds the token.
func makeFD(token []byte) (int, error) {
	f, err := os.CreateTemp("", "cudasim")
	if err != nil {
		return -1, err
	}
	defer f.Close()
	if err := os.Remove(f.Name()); err != nil {
		return -1, err
	}
	if _, err := f.Write(token); err != nil {
		return -1, err
	}
	return unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
}

func readFD(fd int, token []byte) error {
	n, err := unix.Pread(fd, token, 0)
	if err == nil && n != len(token) {
		err = unix.EINVAL
	}
	return err
}
