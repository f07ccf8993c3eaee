package pg

import (
	"fmt"
	"time"

	"github.com/colligo-go/colligo"
)

// Timeout returns the limit of an operation whose context has no deadline, from when it can begin to its end. Time that
// AddEphemeralTimeout adds is not in it. A group that is bound to a device has that of devices. It is DefaultDeviceTimeout
// where nobody has set another. c10d: options.timeout of a backend.
func (g *Group) Timeout() time.Duration {
	if g == nil {
		return 0
	}
	if g.config.Device.Kind != colligo.CPU {
		return g.limits.onDevices()
	}
	return g.limits.now()
}

// withTimeout returns a group's configuration with the limits of now, for a group that is made of it.
func withTimeout(g *Group) Config {
	c := g.config
	c.Timeout = g.limits.now()
	if g.limits.changed.Load() != 0 {
		c.onDevices = 0
	}
	return c
}

// SetTimeout changes the limit of operations that are called from now on, on this rank alone. It must be above 0. Errors
// leave the group as it was. c10d: set_timeout.
func (g *Group) SetTimeout(d time.Duration) error {
	if g == nil || g.rank < 0 {
		return fmt.Errorf("pg: set timeout: %w", ErrNotMember)
	}
	if d <= 0 {
		return fmt.Errorf("pg: group %s: a timeout of %v", g.name, d)
	}
	g.limits.changed.Store(int64(d))
	return nil
}

// AddEphemeralTimeout gives operations called from now on so much longer, until the first of them is done. Calls add up.
// Deadlines of contexts stay. It must be above 0; errors leave the group as it was. c10d: _add_ephemeral_timeout.
func (g *Group) AddEphemeralTimeout(d time.Duration) error {
	if g == nil || g.rank < 0 {
		return fmt.Errorf("pg: add timeout: %w", ErrNotMember)
	}
	if d <= 0 {
		return fmt.Errorf("pg: group %s: a timeout longer by %v", g.name, d)
	}
	l := &g.limits
	l.mu.Lock()
	defer l.mu.Unlock()
	l.extra += d
	l.extending.Store(true)
	return nil
}
