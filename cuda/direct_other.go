//go:build !linux || !amd64 || noasm

package cuda

// pair is two calls of the driver that go to C together, where this package can do so.
type pair struct{}

// launchOutside launches a graph on a stream that is not captured; else it reports that.
func (l *library) launchOutside(e GraphExec, s Stream) (bool, Result) {
	status, _, r := l.captureInfo(s)
	if r != Success || status != CaptureNone {
		return status != CaptureNone, r
	}
	return false, l.call(cuGraphLaunch, uintptr(e), uintptr(s))
}
