package tenants

import (
	"sync"
	"time"

	"github.com/colligo-go/colligo/cuda"
)

// Limit bounds how long Alone waits for other tenants. A tenant may wait for the very goroutine that has called Alone.
const Limit = time.Second

// ReleaseLimit bounds how long Await waits for other ranks of the tenant's own group. Goroutines of the group release their streams. They can
// do that no more once memory is freed, which waits for the device with the lock of the driver.
const ReleaseLimit = 30 * time.Second

// Holder is what tenants ask one another. Its methods never wait.
type Holder interface {
	// Hold keeps the tenant from enqueuing. It reports false, and does nothing, while the tenant enqueues. Release undoes it.
	Hold() bool
	Release()
	// Pending reports whether something of the tenant is on the device. The tenant is held.
	Pending(t cuda.Thread) bool
}

// Tenant is a rank of one group on a device.
type Tenant struct {
	holder Holder
	at     *context
	held   bool   // by the caller of Alone or Lend; under context.mu
	group  string // of which the tenant is a rank, "" before Join; under context.mu
}

// context is what the tenants of one CUDA context share. It is there while a tenant is.
type context struct {
	mu      sync.Mutex
	key     key
	open    int // tenants that are not closed; under registry
	tenants map[*Tenant]bool
	modules modules
}

type key struct {
	driver *cuda.Driver
	handle cuda.Context
}

// registry finds contexts in which a tenant is.
type registry struct {
	sync.Mutex
	by map[key]*context
}

var contexts = &registry{by: map[key]*context{}}

// New returns a tenant of a device, which the caller keeps open until Close. Others do not mind it before Enter.
func New(d *cuda.Device, h Holder) *Tenant {
	return &Tenant{holder: h, at: contexts.open(key{d.Driver(), d.Context()})}
}

// open returns a context, of which there is one more tenant.
func (r *registry) open(k key) *context {
	r.Lock()
	defer r.Unlock()
	c := r.by[k]
	if c == nil {
		c = &context{key: k, tenants: map[*Tenant]bool{}, modules: modules{by: map[string]*Module{}}}
		r.by[k] = c
	}
	c.open++
	return c
}

// close forgets a context whose last tenant has gone.
func (r *registry) close(c *context) {
	r.Lock()
	defer r.Unlock()
	if c.open--; c.open == 0 {
		delete(r.by, c.key)
	}
}

// Join says of which group the tenant is a rank. All ranks of the group in this process join with the same name, and no other group has it.
func (x *Tenant) Join(group string) {
	x.at.mu.Lock()
	defer x.at.mu.Unlock()
	x.group = group
}

// Enter has others mind the tenant from now on: it may have kernels that wait for peers.
func (x *Tenant) Enter() {
	x.at.mu.Lock()
	defer x.at.mu.Unlock()
	x.at.tenants[x] = true
}

// Close ends the tenant, which has nothing on the device any more, and no module. It may be called again.
func (x *Tenant) Close() {
	c := x.at
	if c == nil {
		return
	}
	x.at = nil
	c.mu.Lock()
	delete(c.tenants, x)
	c.mu.Unlock()
	contexts.close(c)
}

// Alone calls f, which may have the driver wait for the device, when no tenant has anything there. After Limit it gives up and calls f all
// the same. The caller holds the tenant, unless that has yet to enter.
func (x *Tenant) Alone(t cuda.Thread, f func() error) error {
	return x.aloneUnless(func() bool { return false }, t, f)
}

// aloneUnless is for a caller of Alone that need not go on waiting when something has come about.
func (x *Tenant) aloneUnless(over func() bool, t cuda.Thread, f func() error) error {
	return x.Lend(func() error {
		for pause, end := leastPause, time.Now().Add(Limit); time.Now().Before(end); pause = longer(pause) {
			if over() {
				return nil
			}
			if done, err := x.try(t, f); done {
				return err
			}
			time.Sleep(pause)
		}
		return f()
	})
}

// Alone looks again after pauses that grow.
const leastPause, mostPause = 10 * time.Microsecond, time.Millisecond

func longer(pause time.Duration) time.Duration { return min(2*pause, mostPause) }

// Lend calls f, in which another tenant of the same rank may be alone. The caller holds the tenant, and enqueues nothing of it in f.
func (x *Tenant) Lend(f func() error) error {
	x.lend(true)
	defer x.lend(false)
	return f()
}

func (x *Tenant) lend(yes bool) {
	x.at.mu.Lock()
	defer x.at.mu.Unlock()
	x.held = yes
}

// Await is for a rank whose group has failed: its program may free memory next. It waits until no tenant has anything on the device. It waits up
// to ReleaseLimit for ranks that have joined the tenant's group, and up to Limit for other tenants. The caller does not hold the tenant.
func (x *Tenant) Await(t cuda.Thread) {
	nothing := func() error { return nil }
	begun := time.Now()
	done, _ := x.Within(t, Limit, nothing)
	for pause := leastPause; !done && x.groupPending(t) && time.Since(begun) < ReleaseLimit; pause = longer(pause) {
		time.Sleep(pause)
		done, _ = x.try(t, nothing)
	}
}

// groupPending reports whether another rank of the tenant's group has something on the device, or enqueues something at the moment.
func (x *Tenant) groupPending(t cuda.Thread) bool {
	c := x.at
	c.mu.Lock()
	defer c.mu.Unlock()
	for y := range c.tenants {
		if y == x || y.group == "" || y.group != x.group {
			continue
		}
		quiet, hold := y.quiet(t)
		if hold {
			y.holder.Release()
		}
		if !quiet {
			return true
		}
	}
	return false
}

// Within calls f as Alone does, but gives up after a limit and does not call f then. It reports whether it has called f. The tenant enqueues
// nothing any more, and the caller does not hold it unless it is within Lend.
func (x *Tenant) Within(t cuda.Thread, limit time.Duration, f func() error) (done bool, err error) {
	for pause, end := leastPause, time.Now().Add(limit); ; pause = longer(pause) {
		if done, err = x.try(t, f); done || time.Now().After(end) {
			return done, err
		}
		time.Sleep(pause)
	}
}

// try calls f if the tenant is alone at the moment.
func (x *Tenant) try(t cuda.Thread, f func() error) (done bool, err error) {
	c := x.at
	c.mu.Lock()
	defer c.mu.Unlock()
	for y := range c.tenants {
		if y == x && x.held {
			continue // f waits for the caller's own work as long as it takes
		}
		quiet, hold := y.quiet(t)
		if !quiet {
			return false, nil
		}
		switch {
		case hold && y == x: // x enqueues nothing, and f may need what x holds
			y.holder.Release()
		case hold:
			defer y.holder.Release()
		}
	}
	return true, f()
}

// quiet reports whether the tenant neither enqueues anything nor has something on the device. It reports whether it holds the tenant, too,
// which is to be released then. It holds no tenant that is busy, nor one that is held.
func (x *Tenant) quiet(t cuda.Thread) (quiet, hold bool) {
	if hold = !x.held; hold && !x.holder.Hold() {
		return false, false
	}
	if quiet = !x.holder.Pending(t); !quiet && hold {
		x.holder.Release()
		hold = false
	}
	return quiet, hold
}
