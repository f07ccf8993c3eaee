package cuda

import (
	"errors"
	"fmt"
)

// Shared is physical memory of one device mapped at one address, which can be exported as a file descriptor.
type Shared struct {
	Pointer    Pointer
	Bytes      int // as asked, rounded up to the device's granularity
	allocation Allocation
}

// AllocShared takes memory on this device that other processes can map, and maps it for this device.
func (t Thread) AllocShared(bytes int) (*Shared, error) {
	unit, r := t.driver.MemGetAllocationGranularity(t.id)
	if err := t.check("cuMemGetAllocationGranularity", r); err != nil {
		return nil, err
	}
	bytes = (bytes + unit - 1) / unit * unit
	a, r := t.driver.MemCreate(bytes, t.id)
	if err := t.check("cuMemCreate", r); err != nil {
		return nil, fmt.Errorf("%w (%d bytes)", err, bytes)
	}
	return t.mapped(&Shared{Bytes: bytes, allocation: a})
}

// ImportShared maps memory of any device, exported by ExportFD in any process of this host, for this device. bytes is
// Shared.Bytes over there. The descriptor stays the caller's and may be closed afterwards.
func (t Thread) ImportShared(fd, bytes int) (*Shared, error) {
	a, r := t.driver.MemImportFromShareableHandle(fd)
	if err := t.check("cuMemImportFromShareableHandle", r); err != nil {
		return nil, err
	}
	return t.mapped(&Shared{Bytes: bytes, allocation: a})
}

// ExportFD returns a descriptor of the memory, to be sent over a unix socket. It is the caller's to close.
func (t Thread) ExportFD(s *Shared) (int, error) {
	fd, r := t.driver.MemExportToShareableHandle(s.allocation)
	return fd, t.check("cuMemExportToShareableHandle", r)
}

// AllowShared lets another device of this process reach the memory at the same address.
func (t Thread) AllowShared(s *Shared, other *Device) error {
	return other.check("cuMemSetAccess", t.driver.MemSetAccess(s.Pointer, s.Bytes, other.id))
}

// FreeShared unmaps the memory; the last process to do so frees it.
func (t Thread) FreeShared(s *Shared) error {
	return errors.Join(
		t.check("cuMemUnmap", t.driver.MemUnmap(s.Pointer, s.Bytes)),
		t.check("cuMemAddressFree", t.driver.MemAddressFree(s.Pointer, s.Bytes)),
		t.check("cuMemRelease", t.driver.MemRelease(s.allocation)))
}

// mapped finds an address for s and maps it there. On failure it gives everything back.
func (t Thread) mapped(s *Shared) (*Shared, error) {
	at, r := t.driver.MemAddressReserve(s.Bytes)
	if err := t.check("cuMemAddressReserve", r); err != nil {
		return nil, errors.Join(err, t.check("cuMemRelease", t.driver.MemRelease(s.allocation)))
	}
	s.Pointer = at
	if r := t.driver.MemMap(at, s.Bytes, s.allocation); r != Success {
		return nil, errors.Join(t.check("cuMemMap", r),
			t.check("cuMemAddressFree", t.driver.MemAddressFree(at, s.Bytes)),
			t.check("cuMemRelease", t.driver.MemRelease(s.allocation)))
	}
	if r := t.driver.MemSetAccess(at, s.Bytes, t.id); r != Success {
		return nil, errors.Join(t.check("cuMemSetAccess", r), t.FreeShared(s))
	}
	return s, nil
}

// IPCHandle names an allocation of Alloc to other processes of this host. p may be any address inside it: the handle is the
// whole allocation's.
func (t Thread) IPCHandle(p Pointer) (IPCHandle, error) {
	h, r := t.driver.IpcGetMemHandle(p)
	return h, t.check("cuIpcGetMemHandle", r)
}

// OpenIPC maps the allocation of another process that h names, and enables peer access where that is needed. The address
// is that of the allocation's start. A process cannot open its own handles.
func (t Thread) OpenIPC(h IPCHandle) (Pointer, error) {
	p, r := t.driver.IpcOpenMemHandle(&h, IPCLazyPeerAccess)
	return p, t.check("cuIpcOpenMemHandle", r)
}

// CloseIPC unmaps memory of OpenIPC.
func (t Thread) CloseIPC(p Pointer) error {
	return t.check("cuIpcCloseMemHandle", t.driver.IpcCloseMemHandle(p))
}
