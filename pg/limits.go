package pg

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/colligo-go/colligo/pg/internal/op"
)

// limits are how long operations of a group may take.
type limits struct {
	timeout time.Duration // of the configuration
	changed atomic.Int64  // what SetTimeout said; 0: nothing

	extending atomic.Bool // some of what follows is not 0
	mu        sync.Mutex
	extra     time.Duration // all that operations get which are called now
	given     time.Duration // the part of it that operations under way take along when they end
}

// Timeout returns the limit of an operation whose context has no deadline, from when it can begin to its end. Time that
// AddEphemeralTimeout adds is not in it. c10d: options.timeout of a backend.
func (g *Group) Timeout() time.Duration {
	if g == nil {
		return 0
	}
	return g.limits.now()
}

// now returns the limit of operations that are called now.
func (l *limits) now() time.Duration {
	if d := l.changed.Load(); d > 0 {
		return time.Duration(d)
	}
	return l.timeout
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

// grant gives an operation its limit, and what is left of the time that operations called now get on top.
func (l *limits) grant(o *op.Op) {
	o.Limit = l.now()
	if !l.extending.Load() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if extra := l.extra - l.given; extra > 0 {
		o.More().Extra = extra
	}
	l.given = l.extra
	o.Limit += l.extra
}

// ended takes back the time that ends with an operation.
func (l *limits) ended(o *op.Op) {
	extra := o.Rare().Extra
	if extra == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.extra -= extra
	l.given -= extra
	l.extending.Store(l.extra > 0)
}
