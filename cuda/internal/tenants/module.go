package tenants

import (
	"errors"
	"fmt"
	"sync"

	"github.com/colligo-go/colligo/cuda"
)

// modules are on a device for the tenants of one context. The lock is held while the driver loads, and never while a tenant waits for
// others.
type modules struct {
	sync.Mutex
	by map[string]*Module // by image
}

// Module is kernels that are on a device, for all tenants that have asked for them.
type Module struct {
	of        *modules
	image     string
	handle    cuda.Module
	functions map[string]cuda.Function
	users     int // under modules
}

// Module returns the module of an image, with all its entry points. A tenant that is alone loads it, if the device does not have it.
// The name is for the error, which has the compiler's words in it. Drop gives the module back. The caller holds the tenant, unless that has yet
// to enter.
func (x *Tenant) Module(t cuda.Thread, name string, image []byte, entries []string) (m *Module, err error) {
	there := func() bool { // a tenant that has loaded it goes on, and holds itself meanwhile
		m = x.at.modules.use(image)
		return m != nil
	}
	err = x.aloneUnless(there, t, func() error {
		m, err = x.at.modules.load(t, name, image, entries)
		return err
	})
	return m, err
}

// use returns a module that is on the device, or nil.
func (ms *modules) use(image []byte) *Module {
	ms.Lock()
	defer ms.Unlock()
	return ms.again(image)
}

// again counts one more user of a module that is on the device. The caller holds the lock.
func (ms *modules) again(image []byte) *Module {
	m := ms.by[string(image)]
	if m != nil {
		m.users++
	}
	return m
}

func (ms *modules) load(t cuda.Thread, name string, image []byte, entries []string) (*Module, error) {
	ms.Lock()
	defer ms.Unlock()
	if m := ms.again(image); m != nil {
		return m, nil
	}
	h, err := t.LoadModule(name, image)
	if err != nil {
		return nil, err
	}
	m := &Module{of: ms, image: string(image), handle: h, functions: map[string]cuda.Function{}, users: 1}
	for _, e := range entries {
		if m.functions[e], err = t.Function(h, e); err != nil {
			return nil, errors.Join(fmt.Errorf("module %s: %w", name, err), t.UnloadModule(h))
		}
	}
	ms.by[m.image] = m
	return m, nil
}

// Function returns an entry point.
func (m *Module) Function(entry string) cuda.Function { return m.functions[entry] }

// Drop gives the module back. The last tenant that does unloads it, for which the driver waits until the device is idle.
func (m *Module) Drop(t cuda.Thread) error {
	m.of.Lock()
	defer m.of.Unlock()
	if m.users--; m.users > 0 {
		return nil
	}
	delete(m.of.by, m.image)
	return t.UnloadModule(m.handle)
}
