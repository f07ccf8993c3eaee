package pg

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// limits are how long operations of a group may take.
type limits struct {
	changed atomic.Int64 // what SetTimeout said; 0: nothing

	extending atomic.Bool // some of what follows is not 0
	mu        sync.Mutex
	extra     time.Duration // all that operations get which are called now
	given     time.Duration // the part of it that operations under way take along when they end
}

// Timeout returns the limit of one operation whose context has no deadline.
func (g *Group) Timeout() time.Duration {
	if g == nil {
		return 0
	}
	if d := g.limits.changed.Load(); d > 0 {
		return time.Duration(d)
	}
	return g.timeout
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

// lease is how long one operation may take.
type lease struct {
	limit time.Duration
	owned time.Duration // ends with the operation
}

// lease gives an operation its limit.
func (g *Group) lease() lease {
	l, limit := &g.limits, g.Timeout()
	if !l.extending.Load() {
		return lease{limit: limit}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	owned := l.extra - l.given
	l.given = l.extra
	return lease{limit + l.extra, owned}
}

// ended takes back what an operation that is done owned.
func (l *limits) ended(was lease) {
	if was.owned == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.extra -= was.owned
	l.given -= was.owned
	l.extending.Store(l.extra > 0)
}
