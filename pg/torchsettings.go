package pg

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/backend"
	"github.com/colligo-go/colligo/pg/internal/bootstrap"
	"github.com/colligo-go/colligo/pg/internal/gloo"
)

// overGloo reports whether a selection of backends has Gloo on the CPU.
func overGloo(s backend.Selection) bool { return s != nil && s.Of(colligo.CPU) == backend.Gloo }

// errNoCPU refuses tensors on the CPU.
var errNoCPU = errors.New("the group has no backend for CPU tensors, for PyTorch's NCCL has none; a barrier needs a device: see BarrierOn")

// settleTorch fills Torch where Backends says that there are ranks of PyTorch, and refuses what a job with them cannot have.
func (c *Config) settleTorch() error {
	s, err := backend.ParseSelection(c.Backends)
	if err != nil || c.Torch == "" && !overGloo(s) {
		return nil // backends tells
	}
	v, err := backend.ParseVersion(c.Torch)
	if err == nil && overGloo(s) {
		err = gloo.Known(v)
	}
	if err != nil {
		return fmt.Errorf("pg: Torch: %w", err)
	}
	c.Torch = v.String()
	if err := c.settleGlooDevice(s); err != nil {
		return err
	}
	device := slices.DeleteFunc(slices.Sorted(maps.Keys(s)), func(k colligo.DeviceKind) bool { return k == colligo.CPU })
	switch {
	case len(device) > 1 || len(device) == 1 && s[device[0]] != backend.NCCL:
		return fmt.Errorf("pg: backends %q: with ranks of PyTorch there are cpu:gloo and cuda:nccl", c.Backends)
	case len(device) == 0 && !overGloo(s):
		return fmt.Errorf("pg: backends %q: Torch says that there are ranks of PyTorch, which have gloo or nccl", c.Backends)
	case len(device) == 0 && c.Device.Kind != colligo.CPU:
		return fmt.Errorf("pg: backends %q: with gloo a group is on the CPU alone", c.Backends)
	case len(device) == 1 && !v.From(2, 8):
		return fmt.Errorf("pg: Torch: how NCCL is called in PyTorch %v is not known here; 2.8 is, and later", v)
	case c.Debug.Level == DebugDetail:
		return errors.New("pg: debug level DETAIL compares calls over links that ranks of PyTorch do not have")
	}
	return nil
}

// settleGlooDevice takes TLS from PyTorch's variables where a group is over Gloo and nothing else gives it.
func (c *Config) settleGlooDevice(s backend.Selection) error {
	if !overGloo(s) || c.TLS != nil {
		return nil
	}
	switch c.gloo.transport {
	case "", "TCP", "TCP_TLS":
	default:
		return fmt.Errorf("pg: environment variable %s is %q: want TCP or TCP_TLS", glooTransport, c.gloo.transport)
	}
	var err error
	c.TLS, err = c.gloo.load()
	return err
}

// torch returns what ranks of PyTorch expect of the store, nil where there are none.
func (c *Config) torch() *bootstrap.Torch {
	if c.Torch == "" {
		return nil
	}
	v := c.version()
	return &bootstrap.Torch{Dialect: gloo.Dialect(v), NoPing: !v.From(2, 5), FreshStore: v.From(2, 6)}
}

// version returns PyTorch's version, which withDefaults has checked.
func (c *Config) version() backend.Version {
	v, err := backend.ParseVersion(c.Torch)
	if err != nil {
		return backend.DefaultVersion
	}
	return v
}

// withoutHost takes the CPU's backend out of a selection that has no other than colligo's own, which ranks of PyTorch do not know.
func (c *Config) withoutHost(s backend.Selection) backend.Selection {
	if c.Torch != "" && s.Of(colligo.CPU) == backend.CPU {
		s = maps.Clone(s)
		delete(s, colligo.CPU)
	}
	return s
}

// torchNames counts the groups of a job as each of its processes does, members or not.
type torchNames struct {
	mu   sync.Mutex
	made int
}

// take counts n more groups and returns the number before them.
func (t *torchNames) take(n int) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.made += n
	return t.made - n
}
