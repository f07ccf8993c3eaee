package cuda

import "unsafe"

func (l *library) bindDevices(d *Driver) {
	d.DeviceGetCount = func() (int, Result) { return l.integer(cuDeviceGetCount) }
	d.DeviceGet = func(ordinal int) (DeviceID, Result) {
		v, r := l.integer(cuDeviceGet, uintptr(ordinal))
		return DeviceID(v), r
	}
	named := func(s symbol, id DeviceID) (string, Result) {
		b := make([]byte, 256)
		r := l.callOut(s, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), int32Word(int32(id)))
		return cString(b), r
	}
	d.DeviceGetName = func(id DeviceID) (string, Result) { return named(cuDeviceGetName, id) }
	d.DeviceGetPCIBusID = func(id DeviceID) (string, Result) { return named(cuDeviceGetPCIBusId, id) }
	d.DeviceGetUUID = func(id DeviceID) ([16]byte, Result) {
		var u [16]byte
		r := l.callOut(cuDeviceGetUuid, uintptr(unsafe.Pointer(&u)), int32Word(int32(id)))
		return u, r
	}
	d.DeviceTotalMem = func(id DeviceID) (uint64, Result) {
		v, r := l.word(cuDeviceTotalMem, int32Word(int32(id)))
		return uint64(v), r
	}
	d.DeviceGetAttribute = func(a Attribute, id DeviceID) (int, Result) {
		return l.integer(cuDeviceGetAttribute, int32Word(int32(a)), int32Word(int32(id)))
	}
	d.DeviceCanAccessPeer = func(id, peer DeviceID) (bool, Result) {
		v, r := l.integer(cuDeviceCanAccessPeer, int32Word(int32(id)), int32Word(int32(peer)))
		return v != 0, r
	}
	d.DeviceGetP2PAttribute = func(a P2PAttribute, src, dst DeviceID) (int, Result) {
		return l.integer(cuDeviceGetP2PAttribute, int32Word(int32(a)), int32Word(int32(src)), int32Word(int32(dst)))
	}
}

func (l *library) bindContexts(d *Driver) {
	d.DevicePrimaryCtxRetain = func(id DeviceID) (Context, Result) {
		v, r := l.word(cuDevicePrimaryCtxRetain, int32Word(int32(id)))
		return Context(v), r
	}
	d.DevicePrimaryCtxRelease = func(id DeviceID) Result { return l.call(cuDevicePrimaryCtxRelease, int32Word(int32(id))) }
	d.CtxGetCurrent = l.current
	d.CtxSetCurrent = func(c Context) Result { return l.call(cuCtxSetCurrent, uintptr(c)) }
	d.CtxGetStreamPriorityRange = func() (int, int, Result) {
		var least, greatest int32
		r := l.callOut(cuCtxGetStreamPriorityRange, uintptr(unsafe.Pointer(&least)), uintptr(unsafe.Pointer(&greatest)))
		return int(least), int(greatest), r
	}
	d.CtxEnablePeerAccess = func(peer Context) Result { return l.call(cuCtxEnablePeerAccess, uintptr(peer), 0) }
}
