package cuda

import "unsafe"

func (l *library) bindMemory(d *Driver) {
	d.MemAlloc = func(bytes int) (Pointer, Result) {
		v, r := l.word(cuMemAlloc, uintptr(bytes))
		return Pointer(v), r
	}
	d.MemFree = func(p Pointer) Result { return l.call(cuMemFree, uintptr(p)) }
	d.MemGetInfo = func() (uint64, uint64, Result) {
		var free, total uint64
		r := l.callOut(cuMemGetInfo, uintptr(unsafe.Pointer(&free)), uintptr(unsafe.Pointer(&total)))
		return free, total, r
	}
	d.MemcpyAsync = func(dst, src Pointer, bytes int, s Stream) Result {
		return l.call(cuMemcpyAsync, uintptr(dst), uintptr(src), uintptr(bytes), uintptr(s))
	}
	d.MemsetD8Async = func(dst Pointer, value uint8, count int, s Stream) Result {
		return l.call(cuMemsetD8Async, uintptr(dst), uintptr(value), uintptr(count), uintptr(s))
	}
	d.MemsetD32Async = func(dst Pointer, value uint32, count int, s Stream) Result {
		return l.call(cuMemsetD32Async, uintptr(dst), uintptr(value), uintptr(count), uintptr(s))
	}
	d.PointerGetAttribute = func(a PointerAttribute, p Pointer) (uint64, Result) {
		v, r := l.word(cuPointerGetAttribute, int32Word(int32(a)), uintptr(p))
		return uint64(v), r
	}
}

func (l *library) bindHost(d *Driver) {
	d.MemHostAlloc = func(bytes int, flags HostFlags) (unsafe.Pointer, Result) {
		var p unsafe.Pointer
		r := l.callOut(cuMemHostAlloc, uintptr(unsafe.Pointer(&p)), uintptr(bytes), uintptr(flags))
		return p, r
	}
	d.MemFreeHost = func(p unsafe.Pointer) Result { return l.call(cuMemFreeHost, uintptr(p)) }
	d.MemHostRegister = func(p unsafe.Pointer, bytes int, flags HostFlags) Result {
		return l.call(cuMemHostRegister, uintptr(p), uintptr(bytes), uintptr(flags))
	}
	d.MemHostUnregister = func(p unsafe.Pointer) Result { return l.call(cuMemHostUnregister, uintptr(p)) }
	d.MemHostGetDevicePointer = func(p unsafe.Pointer) (Pointer, Result) {
		var at Pointer
		r := l.callOut(cuMemHostGetDevicePointer, uintptr(unsafe.Pointer(&at)), uintptr(p), 0)
		return at, r
	}
}

// The structures below are CUmemAllocationProp and CUmemAccessDesc.
type allocationProp struct {
	kind     int32 // 1: pinned
	handles  int32 // 1: file descriptors
	location location
	_        uintptr // only for Windows
	_        [8]byte // compression, RDMA, usage: none
}

type accessDesc struct {
	location location
	flags    int32 // 3: read and write
}

type location struct{ kind, id int32 } // 1: device

func shared(device DeviceID) *allocationProp {
	return &allocationProp{kind: 1, handles: 1, location: location{1, int32(device)}}
}

func (l *library) bindVirtual(d *Driver) {
	d.MemGetAllocationGranularity = func(device DeviceID) (int, Result) {
		var n uintptr
		r := l.callOut(cuMemGetAllocationGranularity, uintptr(unsafe.Pointer(&n)), uintptr(unsafe.Pointer(shared(device))), 0)
		return int(n), r
	}
	d.MemCreate = func(bytes int, device DeviceID) (Allocation, Result) {
		var a Allocation
		r := l.callOut(cuMemCreate, uintptr(unsafe.Pointer(&a)), uintptr(bytes), uintptr(unsafe.Pointer(shared(device))), 0)
		return a, r
	}
	d.MemRelease = func(a Allocation) Result { return l.call(cuMemRelease, uintptr(a)) }
	d.MemAddressReserve = func(bytes int) (Pointer, Result) {
		v, r := l.word(cuMemAddressReserve, uintptr(bytes))
		return Pointer(v), r
	}
	d.MemAddressFree = func(p Pointer, bytes int) Result { return l.call(cuMemAddressFree, uintptr(p), uintptr(bytes)) }
	d.MemMap = func(at Pointer, bytes int, a Allocation) Result {
		return l.call(cuMemMap, uintptr(at), uintptr(bytes), 0, uintptr(a), 0)
	}
	d.MemUnmap = func(at Pointer, bytes int) Result { return l.call(cuMemUnmap, uintptr(at), uintptr(bytes)) }
	d.MemSetAccess = func(at Pointer, bytes int, device DeviceID) Result {
		desc := accessDesc{location{1, int32(device)}, 3}
		return l.callOut(cuMemSetAccess, uintptr(at), uintptr(bytes), uintptr(unsafe.Pointer(&desc)), 1)
	}
}

func (l *library) bindIPC(d *Driver) {
	d.MemExportToShareableHandle = func(a Allocation) (int, Result) {
		var fd int32
		r := l.callOut(cuMemExportToShareableHandle, uintptr(unsafe.Pointer(&fd)), uintptr(a), 1, 0)
		return int(fd), r
	}
	d.MemImportFromShareableHandle = func(fd int) (Allocation, Result) {
		v, r := l.word(cuMemImportFromShareableHandle, uintptr(fd), 1)
		return Allocation(v), r
	}
	d.IpcGetMemHandle = func(p Pointer) (IPCHandle, Result) {
		var h IPCHandle
		r := l.callOut(cuIpcGetMemHandle, uintptr(unsafe.Pointer(&h)), uintptr(p))
		return h, r
	}
	d.IpcOpenMemHandle = func(h *IPCHandle, flags IPCFlags) (Pointer, Result) {
		p := new(Pointer)
		r := l.openIPC(p, h, flags)
		return *p, r
	}
	d.IpcCloseMemHandle = func(p Pointer) Result { return l.call(cuIpcCloseMemHandle, uintptr(p)) }
}
