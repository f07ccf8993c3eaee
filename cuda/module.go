package cuda

import (
	"fmt"
	"strings"
	"unsafe"
)

// LoadModule compiles PTX for the device, or takes a cubin. name is for the error, which has the compiler's words in it.
func (t Thread) LoadModule(name string, image []byte) (Module, error) {
	terminated := append(image[:len(image):len(image)], 0)
	m, log, r := t.driver.ModuleLoadDataEx(terminated)
	err := t.check("cuModuleLoadDataEx", r)
	if err == nil {
		return m, nil
	}
	if log = strings.TrimSpace(log); log == "" {
		log = "the compiler says nothing"
	}
	return 0, fmt.Errorf("%w: module %s: %s", err, name, log)
}

// UnloadModule gives m back with its functions.
func (t Thread) UnloadModule(m Module) error {
	return t.check("cuModuleUnload", t.driver.ModuleUnload(m))
}

// Function finds an entry point and puts its code on the device, so that no launch has to. A first launch that loads code
// can synchronize the device with a process-wide lock held.
func (t Thread) Function(m Module, name string) (Function, error) {
	f, r := t.driver.ModuleGetFunction(m, name)
	if err := t.check("cuModuleGetFunction", r); err != nil {
		return 0, fmt.Errorf("%w: %s", err, name)
	}
	return f, t.check("cuFuncLoad", t.driver.FuncLoad(f))
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

// LaunchesAhead reports whether device and driver have LaunchAhead.
func (d *Device) LaunchesAhead() (bool, error) {
	major, err := d.Attribute(ComputeCapabilityMajor)
	return major >= 9 && d.driver.LaunchAhead != nil, err
}
