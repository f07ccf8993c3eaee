package cuda

import (
	"fmt"

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
