package shm

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// newSegment makes a segment of sealed size and returns its descriptor. It is all zeros and takes no memory yet.
func newSegment(name string, size int64) (int, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3
		fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return -1, fmt.Errorf("shm: memfd_create: %w", err)
	}
	if err := unix.Ftruncate(fd, size); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("shm: ftruncate of a segment to %d bytes: %w", size, err)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("shm: sealing a segment of %d bytes: %w", size, err)
	}
	return fd, nil
}

// checkSegment says whether a peer's descriptor is a memory file of the right size that can never get smaller.
func checkSegment(fd int, size int64) error {
	got, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil {
		return fmt.Errorf("reading the seals of its segment: %w", err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("fstat of its segment: %w", err)
	}
	if got&unix.F_SEAL_SHRINK == 0 || st.Size != size {
		return fmt.Errorf("its segment has %d bytes and seals %#x; wanted are %d bytes sealed against shrinking", st.Size, got, size)
	}
	return nil
}

// mapping maps a part of a segment for reading and writing.
func mapping(fd int, offset int64, size int) ([]byte, error) {
	b, err := unix.Mmap(fd, offset, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mmap of %d bytes at %d of a segment: %w", size, offset, err)
	}
	return b, nil
}

// unmap gives mappings back.
func unmap(maps [][]byte) error {
	var errs []error
	for _, b := range maps {
		if err := unix.Munmap(b); err != nil {
			errs = append(errs, fmt.Errorf("shm: munmap of %d bytes: %w", len(b), err))
		}
	}
	return errors.Join(errs...)
}
