package cuda

import (
	"fmt"
	"strings"
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

// LaunchesAhead reports whether device and driver have LaunchAhead.
func (d *Device) LaunchesAhead() (bool, error) {
	major, err := d.Attribute(ComputeCapabilityMajor)
	return major >= 9 && d.driver.LaunchAhead != nil, err
}
