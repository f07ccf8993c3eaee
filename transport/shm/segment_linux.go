package shm

import (
	"errors"
	"fmt"
	"unsafe"

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

// space is addresses for all that a mesh maps. Parts of segments lie side by side in it, so that one call gives all of them back. Each such
// call interrupts the other CPUs on which the process runs.
type space struct {
	all  []byte
	used int
}

// reserve sets addresses for so many bytes apart, without memory.
func reserve(size int64) (*space, error) {
	at, err := unix.MmapPtr(-1, 0, nil, uintptr(size), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("shm: addresses for %d bytes: %w", size, err)
	}
	return &space{all: unsafe.Slice((*byte)(at), size)}, nil
}

// mapping maps a part of a segment, whole pages, for reading and writing. One goroutine at a time calls it.
func (s *space) mapping(fd int, offset int64, size int) ([]byte, error) {
	b := s.all[s.used:][:size:size]
	_, err := unix.MmapPtr(fd, offset, unsafe.Pointer(unsafe.SliceData(b)), uintptr(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_FIXED)
	if err != nil {
		return nil, fmt.Errorf("mmap of %d bytes at %d of a segment: %w", size, offset, err)
	}
	s.used += size
	return b, nil
}

// unmap gives everything back.
func (s *space) unmap() error {
	if err := unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(s.all)), uintptr(len(s.all))); err != nil {
		return fmt.Errorf("shm: munmap of %d bytes: %w", len(s.all), err)
	}
	return nil
}
