package filestore

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// removeLocked says that a file can be removed while it is open and locked.
const removeLocked = false

// tryLock locks the whole file, with all the length that it can grow to, and reports whether it got the lock. Closing
// the file lets it go.
func tryLock(file *os.File, exclusive bool) (bool, error) {
	flags := uint32(windows.LOCKFILE_FAIL_IMMEDIATELY)
	if exclusive {
		flags |= windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	const all = ^uint32(0)
	err := windows.LockFileEx(windows.Handle(file.Fd()), flags, 0, all, all, new(windows.Overlapped))
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING):
		return false, nil
	}
	return false, os.NewSyscallError("LockFileEx", err)
}
