package cuda

import (
	"errors"
	"fmt"
	"unsafe"
)

// Alloc takes device memory, aligned to 256 bytes at least.
func (t Thread) Alloc(bytes int) (Pointer, error) {
	p, r := t.driver.MemAlloc(bytes)
	if r == Success {
		return p, nil
	}
	return 0, fmt.Errorf("%w (%d bytes)", t.check("cuMemAlloc", r), bytes)
}

// Free gives back memory of Alloc. It waits until the device is idle, and the driver's other calls for the device may wait for
// it. Where ranks of one process share a device, that can be a deadlock: the work may need a call of the rank that frees. So no rank
// frees there while another has an operation pending.
func (t Thread) Free(p Pointer) error { return t.check("cuMemFree", t.driver.MemFree(p)) }

// MemoryInfo returns the device's free and total memory in bytes.
func (t Thread) MemoryInfo() (free, total uint64, err error) {
	free, total, r := t.driver.MemGetInfo()
	return free, total, t.check("cuMemGetInfo", r)
}

// Copy enqueues the copy of bytes from src to dst, on any devices that can reach one another, or pinned host memory.
func (t Thread) Copy(dst, src Pointer, bytes int, s Stream) error {
	return t.check("cuMemcpyAsync", t.driver.MemcpyAsync(dst, src, bytes, s))
}

// Set8 enqueues the filling of count bytes.
func (t Thread) Set8(dst Pointer, value uint8, count int, s Stream) error {
	return t.check("cuMemsetD8Async", t.driver.MemsetD8Async(dst, value, count, s))
}

// Set32 enqueues the filling of count words of four bytes; dst is a multiple of four.
func (t Thread) Set32(dst Pointer, value uint32, count int, s Stream) error {
	return t.check("cuMemsetD32Async", t.driver.MemsetD32Async(dst, value, count, s))
}

// Host is pinned host memory that devices can reach.
type Host struct {
	Bytes  []byte  // not Go memory
	Device Pointer // where devices see it
	owned  bool
}

// AllocHost takes pinned host memory and maps it for all devices.
func (t Thread) AllocHost(bytes int) (*Host, error) {
	p, r := t.driver.MemHostAlloc(bytes, HostPortable|HostMapped)
	if err := t.check("cuMemHostAlloc", r); err != nil {
		return nil, fmt.Errorf("%w (%d bytes)", err, bytes)
	}
	return t.hosted(&Host{Bytes: unsafe.Slice((*byte)(p), bytes), owned: true})
}

// PinHost pins and maps memory that is already there, a shared mapping for instance. b must not be Go memory. Its start and
// length are best multiples of the page size.
func (t Thread) PinHost(b []byte) (*Host, error) {
	r := t.driver.MemHostRegister(unsafe.Pointer(unsafe.SliceData(b)), len(b), HostPortable|HostMapped)
	if err := t.check("cuMemHostRegister", r); err != nil {
		return nil, fmt.Errorf("%w (%d bytes)", err, len(b))
	}
	return t.hosted(&Host{Bytes: b})
}

func (t Thread) hosted(h *Host) (*Host, error) {
	at, r := t.driver.MemHostGetDevicePointer(unsafe.Pointer(unsafe.SliceData(h.Bytes)))
	if err := t.check("cuMemHostGetDevicePointer", r); err != nil {
		return nil, errors.Join(err, t.FreeHost(h))
	}
	h.Device = at
	return h, nil
}

// FreeHost gives back memory of AllocHost, or unpins memory of PinHost. No work that touches it may be pending.
func (t Thread) FreeHost(h *Host) error {
	p := unsafe.Pointer(unsafe.SliceData(h.Bytes))
	if h.owned {
		return t.check("cuMemFreeHost", t.driver.MemFreeHost(p))
	}
	return t.check("cuMemHostUnregister", t.driver.MemHostUnregister(p))
}
