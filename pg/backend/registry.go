package backend

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/colligo-go/colligo"
)

// The names of backends that have no other name. CPU is the backend of tensors on the CPU. Native is the backend that is
// taken for a device where a group names none.
const (
	CPU    = "host"
	Native = "peer"
	// Gloo is the backend of tensors on the CPU in a job whose other ranks are PyTorch's, with its backend "gloo".
	Gloo = "gloo"
	// NCCL is the backend of tensors on NVIDIA's devices that NVIDIA's library carries out, also with ranks of PyTorch.
	NCCL = "nccl"
)

// Opener makes a group's backend for the device of the first tensor that the group sees. All ranks call it at the same
// operation, and it may use the host's Do and Dup.
type Opener func(ctx context.Context, h Host, d colligo.Device) (Backend, error)

// registry holds the backends of this program by the kind of their device and by name.
var registry struct {
	sync.Mutex
	openers map[colligo.DeviceKind]map[string]Opener
}

// Register makes groups use a backend for tensors of a kind of device, under the given name. Backends call it from an init
// function. Groups take Native unless they name another; where a kind has no Native, the first by name is taken. A second
// backend of one kind and name panics, and so does a name with any of ",: ". c10d: Backend.register_backend.
func Register(kind colligo.DeviceKind, name string, open Opener) {
	registry.Lock()
	defer registry.Unlock()
	if kind == colligo.CPU || registry.openers[kind][name] != nil {
		panic(fmt.Sprintf("backend: second backend %q for %v tensors", name, kind))
	}
	if name == "" || strings.ContainsAny(name, ",: ") {
		panic(fmt.Sprintf("backend: a backend named %q", name))
	}
	if registry.openers == nil {
		registry.openers = map[colligo.DeviceKind]map[string]Opener{}
	}
	if registry.openers[kind] == nil {
		registry.openers[kind] = map[string]Opener{}
	}
	registry.openers[kind][name] = open
}

// Names returns the names of the backends in this program for a kind of device, the default first.
// c10d: is_backend_available.
func Names(kind colligo.DeviceKind) []string {
	if kind == colligo.CPU {
		return []string{CPU, Gloo}
	}
	registry.Lock()
	defer registry.Unlock()
	names := slices.Sorted(maps.Keys(registry.openers[kind]))
	if i := slices.Index(names, Native); i > 0 {
		names = slices.Insert(slices.Delete(names, i, i+1), 0, Native)
	}
	return names
}

// Kinds returns the CPU and all kinds of device that a backend is registered for, in order.
func Kinds() []colligo.DeviceKind {
	registry.Lock()
	defer registry.Unlock()
	return append([]colligo.DeviceKind{colligo.CPU}, slices.Sorted(maps.Keys(registry.openers))...)
}

// Open returns the opener of a kind and name, nil if there is none.
func Open(kind colligo.DeviceKind, name string) Opener {
	registry.Lock()
	defer registry.Unlock()
	return registry.openers[kind][name]
}
