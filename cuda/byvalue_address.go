//go:build !amd64 || windows

package cuda

import "unsafe"

// openIPC passes the handle by value: arm64 and Windows have the caller copy a structure of this size and pass its
// address.
func (l *library) openIPC(p *Pointer, h *IPCHandle, flags IPCFlags) Result {
	copied := *h
	return l.callOut(cuIpcOpenMemHandle, uintptr(unsafe.Pointer(p)), uintptr(unsafe.Pointer(&copied)), uintptr(flags))
}
