package cuda

import "unsafe"

// driver returns the table with the functions of the library.
func (l *library) driver() *Driver {
	d := &Driver{Path: l.path}
	l.bindErrors(d)
	l.bindDevices(d)
	l.bindContexts(d)
	l.bindStreams(d)
	l.bindCapture(d)
	l.bindEvents(d)
	l.bindMemory(d)
	l.bindHost(d)
	l.bindVirtual(d)
	l.bindIPC(d)
	l.bindModules(d)
	l.bindGraphs(d)
	return d
}

func (l *library) bindErrors(d *Driver) {
	text := func(s symbol, code Result) string {
		var p *byte
		if l.callOut(s, int32Word(int32(code)), uintptr(unsafe.Pointer(&p))) != Success || p == nil {
			return "unknown to the driver"
		}
		n := 0
		for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
			n++
		}
		return string(unsafe.Slice(p, n))
	}
	d.GetErrorName = func(r Result) string { return text(cuGetErrorName, r) }
	d.GetErrorString = func(r Result) string { return text(cuGetErrorString, r) }
	d.Init = func() Result { return l.call(cuInit, 0) }
	d.DriverGetVersion = func() (int, Result) { return l.integer(cuDriverGetVersion) }
}

// integer calls a function that writes an int through its first parameter. None of the words is an address.
func (l *library) integer(s symbol, words ...uintptr) (int, Result) {
	var v int32
	var w [4]uintptr
	copy(w[:], words)
	r := l.callOut(s, uintptr(unsafe.Pointer(&v)), w[0], w[1], w[2], w[3])
	return int(v), r
}

// word calls a function that writes eight bytes, such as a handle, through its first parameter. None of the words is an
// address.
func (l *library) word(s symbol, words ...uintptr) (uintptr, Result) {
	var v uintptr
	var w [4]uintptr
	copy(w[:], words)
	r := l.callOut(s, uintptr(unsafe.Pointer(&v)), w[0], w[1], w[2], w[3])
	return v, r
}

// cString returns the bytes that C wrote into b before the zero byte.
func cString(b []byte) string {
	for i, c := range b {
		if c == 0 {
			return string(b[:i])
		}
	}
	return string(b)
}

// int32Word passes a signed int in a word.
func int32Word(v int32) uintptr { return uintptr(uint32(v)) }
