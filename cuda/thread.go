package cuda

import "runtime"

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

// EnablePeer lets kernels and copies of this device reach memory of cuMemAlloc on peer. Doing so twice is no error.
func (t Thread) EnablePeer(peer *Device) error {
	r := t.driver.CtxEnablePeerAccess(peer.context)
	if r == PeerAccessAlreadyEnabled {
		return nil
	}
	return t.check("cuCtxEnablePeerAccess", r)
}
