//go:build !noasm

package cuda

import "unsafe"

// cgocall is the runtime's way to C, which purego uses too. It calls fn, the address of a function by C's rules, on the
// system's stack with arg. Purego's own work around it, for more words and for floating point, takes as long again.
//
//go:linkname cgocall runtime.cgocall
func cgocall(fn uintptr, arg unsafe.Pointer) int32

// frameAddress returns the address of a function by C's rules that takes a *frame.
func frameAddress() uintptr

// registers is how many words go to C in registers.
const registers = 6

// call calls a function of C with the first n words. The layout of frame is known to direct_linux_amd64.s.
func (f *frame) call(address uintptr, n int) Result {
	if n > registers {
		return callC(address, f.words[:n])
	}
	f.function = address
	cgocall(frameAddress(), unsafe.Pointer(f))
	return f.result
}

// pair is two calls of the driver that go to C together: is the stream captured, and if it is not, launch the graph. Going to
// C costs as much as what such a call does there. Its layout is known to direct_linux_amd64.s.
type pair struct {
	query, launch uintptr // functions of the driver
	exec          GraphExec
	stream        Stream
	id            uint64
	status        CaptureStatus
	result        Result // of the one called last
}

// pairAddress returns the address of a function by C's rules that takes a *pair.
func pairAddress() uintptr

// launchOutside launches a graph on a stream that is not captured; else it reports that.
func (l *library) launchOutside(e GraphExec, s Stream) (bool, Result) {
	f := frames.Get().(*frame)
	f.pair = pair{query: l.address[cuStreamGetCaptureInfo], launch: l.address[cuGraphLaunch], exec: e, stream: s}
	cgocall(pairAddress(), unsafe.Pointer(&f.pair))
	captured, r := f.pair.status != CaptureNone, f.pair.result
	frames.Put(f)
	return captured, r
}
