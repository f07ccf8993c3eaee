package cuda

import (
	"fmt"
	"runtime"
	"unsafe"

	"github.com/colligo-go/colligo"
)

// A Device is one GPU with its primary context, which it shares with every other CUDA library in the process. Methods may
// be called from any goroutine.
type Device struct {
	driver  *Driver
	index   int
	id      DeviceID
	context Context
}

// Devices returns how many devices the driver shows this process.
func (d *Driver) Devices() (int, error) {
	n, r := d.DeviceGetCount()
	return n, d.check("cuDeviceGetCount", -1, r)
}

// Version returns the newest CUDA that the driver supports, such as 13 and 0.
func (d *Driver) Version() (major, minor int, err error) {
	v, r := d.DriverGetVersion()
	return v / 1000, v % 1000 / 10, d.check("cuDriverGetVersion", -1, r)
}

// Device opens the device with the given ordinal: it retains the primary context, until Close.
func (d *Driver) Device(index int) (*Device, error) {
	id, r := d.DeviceGet(index)
	if err := d.check("cuDeviceGet", index, r); err != nil {
		return nil, err
	}
	c, r := d.DevicePrimaryCtxRetain(id)
	if err := d.check("cuDevicePrimaryCtxRetain", index, r); err != nil {
		return nil, err
	}
	return &Device{driver: d, index: index, id: id, context: c}, nil
}

// Close releases the primary context. The last release in the process destroys it with everything made in it.
func (d *Device) Close() error {
	return d.check("cuDevicePrimaryCtxRelease", d.driver.DevicePrimaryCtxRelease(d.id))
}

// Driver returns the table that the device was opened from.
func (d *Device) Driver() *Driver { return d.driver }

// Index returns the device's ordinal.
func (d *Device) Index() int { return d.index }

// Context returns the primary context.
func (d *Device) Context() Context { return d.context }

// Place returns the device as tensors name it.
func (d *Device) Place() colligo.Device { return colligo.Device{Kind: colligo.CUDA, Index: d.index} }

// String returns, for example, "cuda:1".
func (d *Device) String() string { return d.Place().String() }

// Name returns the model, such as "NVIDIA H200".
func (d *Device) Name() (string, error) {
	s, r := d.driver.DeviceGetName(d.id)
	return s, d.check("cuDeviceGetName", r)
}

// UUID returns the device's identity in NVIDIA's form, such as GPU-2cb5e3a1-0000-0000-0000-000000000000. It tells devices
// apart whose ordinals differ between processes.
func (d *Device) UUID() (string, error) {
	u, r := d.driver.DeviceGetUUID(d.id)
	return fmt.Sprintf("GPU-%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:]), d.check("cuDeviceGetUuid", r)
}

// PCIBusID returns the device's place on the bus, such as 0000:1b:00.0.
func (d *Device) PCIBusID() (string, error) {
	s, r := d.driver.DeviceGetPCIBusID(d.id)
	return s, d.check("cuDeviceGetPCIBusId", r)
}

// Attribute returns a property.
func (d *Device) Attribute(a Attribute) (int, error) {
	v, r := d.driver.DeviceGetAttribute(a, d.id)
	return v, d.check("cuDeviceGetAttribute", r)
}

// Memory returns the device's memory in bytes.
func (d *Device) Memory() (uint64, error) {
	v, r := d.driver.DeviceTotalMem(d.id)
	return v, d.check("cuDeviceTotalMem", r)
}

// CanAccess reports whether kernels and copies of d can reach the memory of peer.
func (d *Device) CanAccess(peer *Device) (bool, error) {
	yes, r := d.driver.DeviceCanAccessPeer(d.id, peer.id)
	return yes, d.check("cuDeviceCanAccessPeer", r)
}

// PeerAttribute returns a property of the way from d to peer.
func (d *Device) PeerAttribute(a P2PAttribute, peer *Device) (int, error) {
	v, r := d.driver.DeviceGetP2PAttribute(a, d.id, peer.id)
	return v, d.check("cuDeviceGetP2PAttribute", r)
}

// PointerAttribute returns a property of an address, which may lie on any device.
func (d *Driver) PointerAttribute(a PointerAttribute, p Pointer) (uint64, error) {
	v, r := d.PointerGetAttribute(a, p)
	return v, d.check("cuPointerGetAttribute", -1, r)
}

func (d *Device) check(fn string, r Result) error {
	if r == Success {
		return nil
	}
	return d.driver.check(fn, d.index, r)
}

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
