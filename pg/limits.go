package pg

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/colligo-go/colligo/pg/internal/op"
)

// limits are how long operations of a group may take.
type limits struct {
	timeout time.Duration // of the configuration
	devices time.Duration // of operations on devices, where it differs; else 0
	changed atomic.Int64  // what SetTimeout said; 0: nothing

	extending atomic.Bool // some of what follows is not 0
	mu        sync.Mutex
	extra     time.Duration // all that operations get which are called now
	given     time.Duration // the part of it that operations under way take along when they end
}

// now returns the limit of operations that are called now.
func (l *limits) now() time.Duration {
	if d := l.changed.Load(); d > 0 {
		return time.Duration(d)
	}
	return l.timeout
}

// onDevices returns the limit of operations on devices that are called now.
func (l *limits) onDevices() time.Duration {
	if l.devices > 0 && l.changed.Load() == 0 {
		return l.devices
	}
	return l.now()
}

// grant gives an operation its limit, and what is left of the time that operations called now get on top.
func (l *limits) grant(o *op.Op) {
	if o.Limit = l.now(); !o.OnCPU() {
		o.Limit = l.onDevices()
	}
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
