//go:build !noasm

package cuda

import (
	"unsafe"

	"github.com/colligo-go/colligo/cuda/internal/ccall"
)

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
	ccall.Run(pairAddress(), unsafe.Pointer(&f.pair))
	captured, r := f.pair.status != CaptureNone, f.pair.result
	frames.Put(f)
	return captured, r
}
