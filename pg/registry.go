package pg

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/colligo-go/colligo"
)

// The names of backends that have no other: HostBackend carries out what is on the CPU, in this package; NativeBackend is
// what RegisterBackend registers.
const (
	HostBackend   = "host"
	NativeBackend = "peer"
)

// openers are the backends of this program by the kind of their device and by name.
var openers struct {
	sync.Mutex
	by map[colligo.DeviceKind]map[string]Opener
}

// RegisterBackend makes groups use a backend for tensors of a kind of device, under the name NativeBackend: the one that
// is taken where a group names none. Backends call it from an init function, so that importing one is all a program does.
// A second one for a kind panics.
func RegisterBackend(kind colligo.DeviceKind, open Opener) {
	RegisterNamedBackend(kind, NativeBackend, open)
}

// RegisterNamedBackend is RegisterBackend under another name, which groups ask for in Config.Backends or
// GroupOptions.Backends. Where a kind has no NativeBackend, the first by name is taken. A name has none of ",: ".
// c10d: Backend.register_backend.
func RegisterNamedBackend(kind colligo.DeviceKind, name string, open Opener) {
	openers.Lock()
	defer openers.Unlock()
	if openers.by == nil {
		openers.by = map[colligo.DeviceKind]map[string]Opener{}
	}
	if kind == colligo.CPU || openers.by[kind][name] != nil {
		panic(fmt.Sprintf("pg: second backend %q for %v tensors", name, kind))
	}
	if name == "" || strings.ContainsAny(name, ",: ") {
		panic(fmt.Sprintf("pg: backend named %q", name))
	}
	if openers.by[kind] == nil {
		openers.by[kind] = map[string]Opener{}
	}
	openers.by[kind][name] = open
}

// Backends returns the names of the backends in this program for a kind of device, the default first.
// c10d: is_backend_available.
func Backends(kind colligo.DeviceKind) []string {
	if kind == colligo.CPU {
		return []string{HostBackend}
	}
	openers.Lock()
	defer openers.Unlock()
	names := slices.Sorted(maps.Keys(openers.by[kind]))
	if i := slices.Index(names, NativeBackend); i > 0 {
		names = slices.Insert(slices.Delete(names, i, i+1), 0, NativeBackend)
	}
	return names
}

// deviceKinds returns the CPU and all kinds that a backend is registered for, in order.
func deviceKinds() []colligo.DeviceKind {
	openers.Lock()
	defer openers.Unlock()
	return append([]colligo.DeviceKind{colligo.CPU}, slices.Sorted(maps.Keys(openers.by))...)
}

// backendNames is what a group uses for each kind of device; nil takes every kind's default.
type backendNames map[colligo.DeviceKind]string

// parseBackends reads what Config.Backends says.
func parseBackends(s string) (backendNames, error) {
	if s == "" {
		return nil, nil
	}
	names := backendNames{colligo.CPU: HostBackend}
	given := map[colligo.DeviceKind]bool{}
	for part := range strings.SplitSeq(s, ",") {
		device, name, pair := strings.Cut(strings.ToLower(strings.TrimSpace(part)), ":")
		if !pair && !strings.Contains(s, ",") {
			return names, names.everywhere(device)
		}
		kind, err := kindNamed(device)
		switch {
		case !pair:
			return nil, fmt.Errorf("backends %q: %q names no device", s, part)
		case err != nil:
			return nil, fmt.Errorf("backends %q: %w", s, err)
		case given[kind]:
			return nil, fmt.Errorf("backends %q name two for %v", s, kind)
		case !slices.Contains(Backends(kind), name):
			return nil, fmt.Errorf("no backend %q for %v in this program: %s", name, kind, linked())
		}
		names[kind], given[kind] = name, true
	}
	return names, nil
}

// everywhere uses one name for all kinds that have it.
func (b backendNames) everywhere(name string) error {
	found := false
	for _, kind := range deviceKinds() {
		if slices.Contains(Backends(kind), name) {
			b[kind], found = name, true
		}
	}
	if !found {
		return fmt.Errorf("no backend %q in this program: %s", name, linked())
	}
	return nil
}

func kindNamed(device string) (colligo.DeviceKind, error) {
	kinds := append(deviceKinds(), colligo.CUDA)
	for _, kind := range kinds {
		if kind.String() == device {
			return kind, nil
		}
	}
	return 0, fmt.Errorf("no device is called %q", device)
}

// linked says what there is.
func linked() string {
	var all []string
	for _, kind := range deviceKinds() {
		for _, name := range Backends(kind) {
			all = append(all, fmt.Sprintf("%v:%s", kind, name))
		}
	}
	return "there are " + strings.Join(all, ", ") + "; importing a backend's package, such as colligo's cuda/peer, adds it"
}

// of returns the name for a kind of device; empty means that the group has none.
func (b backendNames) of(kind colligo.DeviceKind) string {
	if b != nil {
		return b[kind]
	}
	if all := Backends(kind); len(all) > 0 {
		return all[0]
	}
	return ""
}

// String prints the pairs as c10d does, such as "cpu:host,cuda:peer".
func (b backendNames) String() string {
	var pairs []string
	for _, kind := range deviceKinds() {
		if name := b.of(kind); name != "" {
			pairs = append(pairs, fmt.Sprintf("%v:%s", kind, name))
		}
	}
	return strings.Join(pairs, ",")
}

// opener returns what opens the group's backend for a device.
func (g *Group) opener(d colligo.Device) (Opener, error) {
	if bound := g.config.Device; bound.Kind != colligo.CPU && d != bound {
		return nil, fmt.Errorf("a tensor on %v, and the group is bound to %v", d, bound)
	}
	name := g.form.backends.of(d.Kind)
	openers.Lock()
	open := openers.by[d.Kind][name]
	openers.Unlock()
	switch {
	case open != nil:
		return open, nil
	case g.form.backends != nil:
		return nil, fmt.Errorf("no backend for %v tensors in this group, which has %v", d.Kind, g.form.backends)
	}
	return nil, fmt.Errorf("no backend for %v tensors in this program: %s", d.Kind, linked())
}
