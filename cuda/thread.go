package cuda

import (
	"runtime"
	"unsafe"
)

// A Thread is the calling goroutine locked to its operating system thread with a device's context current there. It is
// used by that goroutine only, until Leave.
type Thread struct {
	*Device
	back Context // to be put back by Leave; 0 for nothing
}

// Enter locks the goroutine to its thread and makes the device's context current. Enters nest.
func (d *Device) Enter() (Thread, error) {
	runtime.LockOSThread()
	before, r := d.driver.CtxGetCurrent()
	if r != Success {
		runtime.UnlockOSThread()
		return Thread{}, d.check("cuCtxGetCurrent", r)
	}
	if before == d.context {
		return Thread{d, 0}, nil
	}
	if r := d.driver.CtxSetCurrent(d.context); r != Success {
		runtime.UnlockOSThread()
		return Thread{}, d.check("cuCtxSetCurrent", r)
	}
	return Thread{d, before}, nil
}

// Leave undoes Enter. A thread that had no context keeps the device's, so that the next Enter finds it there. If another
// context cannot be put back, its owner's next call fails with the same error, so Leave has none.
func (t Thread) Leave() {
	if t.back != 0 {
		t.driver.CtxSetCurrent(t.back)
	}
	runtime.UnlockOSThread()
}

// Grid is the shape of a launch.
type Grid struct {
	Blocks, Threads uint32 // threads of one block
	Shared          uint32 // bytes of dynamic shared memory of one block
}

// Launch enqueues a kernel whose only parameter is the struct that args points to. The driver copies it before Launch
// returns. A struct that is used again and again lies on the heap and costs no allocation.
func (t Thread) Launch(f Function, g Grid, args unsafe.Pointer, s Stream) error {
	return t.check("cuLaunchKernel", t.driver.LaunchKernel(f, g.Blocks, g.Threads, g.Shared, s, args))
}

// LaunchAhead launches a kernel before the work in front of it on s has ended. The kernel itself waits for that end
// (griddepcontrol.wait) before it touches memory. Its blocks come to the device while a kernel before it ends. It costs less
// time on the host, too.
func (t Thread) LaunchAhead(f Function, g Grid, args unsafe.Pointer, s Stream) error {
	return t.check("cuLaunchKernelEx", t.driver.LaunchAhead(f, g.Blocks, g.Threads, g.Shared, s, args))
}

// EnablePeer lets kernels and copies of this device reach memory of cuMemAlloc on peer. Doing so twice is no error.
func (t Thread) EnablePeer(peer *Device) error {
	r := t.driver.CtxEnablePeerAccess(peer.context)
	if r == PeerAccessAlreadyEnabled {
		return nil
	}
	return t.check("cuCtxEnablePeerAccess", r)
}
