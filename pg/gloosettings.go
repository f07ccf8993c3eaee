package pg

import (
	"errors"
	"fmt"
	"sync"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/backend"
	"github.com/colligo-go/colligo/pg/internal/bootstrap"
	"github.com/colligo-go/colligo/pg/internal/gloo"
)

// overGloo reports whether a selection of backends makes a group one.
func overGloo(s backend.Selection) bool { return s != nil && s.Of(colligo.CPU) == backend.Gloo }

// checkGloo refuses what a job with ranks of PyTorch cannot have.
func (c *Config) checkGloo() error {
	s, err := backend.ParseSelection(c.Backends)
	if err != nil || !overGloo(s) {
		return nil // backends tells
	}
	if _, err := gloo.ParseVersion(c.Torch); err != nil {
		return fmt.Errorf("pg: Torch: %w", err)
	}
	switch {
	case len(s) > 1 || c.Device.Kind != colligo.CPU:
		return fmt.Errorf("pg: backends %q: with gloo a group is on the CPU alone", c.Backends)
	case c.Debug.Level == DebugDetail:
		return errors.New("pg: debug level DETAIL compares calls over links that ranks of PyTorch do not have")
	}
	return nil
}

// torch returns what ranks of PyTorch expect of the store, nil where there are none.
func (c *Config) torch() *bootstrap.Torch {
	s, err := backend.ParseSelection(c.Backends)
	if err != nil || !overGloo(s) {
		return nil
	}
	v := c.version()
	return &bootstrap.Torch{Dialect: v.Store(), NoPing: !v.From(2, 5)}
}

// version returns PyTorch's version, which withDefaults has checked.
func (c *Config) version() gloo.Version {
	v, err := gloo.ParseVersion(c.Torch)
	if err != nil {
		return gloo.DefaultVersion
	}
	return v
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
