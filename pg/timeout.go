package pg

import (
	"fmt"
	"time"
)

// Timeout returns the limit of an operation whose context has no deadline, from when it can begin to its end. Time that
// AddEphemeralTimeout adds is not in it. c10d: options.timeout of a backend.
func (g *Group) Timeout() time.Duration {
	if g == nil {
		return 0
	}
	return g.limits.now()
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
