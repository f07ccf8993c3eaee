//go:build amd64 && !windows

package cuda

import "unsafe"

// openIPC passes the handle by value. System V puts a structure of more than 16 bytes on the stack. It lies behind the six words that go
// in registers, and the other arguments fill only two of these.
func (l *library) openIPC(p *Pointer, h *IPCHandle, flags IPCFlags) Result {
	w := (*[8]uintptr)(unsafe.Pointer(h))
	return l.callOut(cuIpcOpenMemHandle, uintptr(unsafe.Pointer(p)), uintptr(flags), 0, 0, 0, 0,
		w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7])
}
