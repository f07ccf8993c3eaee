package pg

import (
	"fmt"
	"time"
)

// Timeout returns the limit of one operation whose context has no deadline.
func (g *Group) Timeout() time.Duration {
	if g == nil {
		return 0
	}
	return g.limits.now()
}

// SetTimeout changes the limit of operations that are called from now on. c10d: set_timeout.
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
// Contexts' own deadlines stay. c10d: _add_ephemeral_timeout.
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
