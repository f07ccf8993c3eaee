package peer

import (
	"errors"
	"sync"
)

// family is the ranks of a group that share a process. Heaps within it are used by address, so the last rank that closes
// gives back those of all: until then a peer may still write into the heap of a rank that has left.
type family struct {
	present int
	leaving []func() error // of the ranks that have left
}

// registry finds families by name.
type registry struct {
	sync.Mutex
	by map[string]*family
}

var families = &registry{by: map[string]*family{}}

// join makes a rank a member.
func (r *registry) join(name string) {
	r.Lock()
	defer r.Unlock()
	if r.by[name] == nil {
		r.by[name] = &family{}
	}
	r.by[name].present++
}

// leave returns what is to be given back: nothing while a member is present.
func (r *registry) leave(name string, giveBack func() error) []func() error {
	r.Lock()
	defer r.Unlock()
	f := r.by[name]
	f.leaving = append(f.leaving, giveBack)
	if f.present--; f.present > 0 {
		return nil
	}
	delete(r.by, name)
	return f.leaving
}

// joinFamily makes this rank a member. All ranks have joined before one writes into another's heap.
func (b *backend) joinFamily(name string) {
	families.join(name)
	b.family = name
}

// leaveFamily runs giveBack, and those of all who have left, when no member is present any more.
func (b *backend) leaveFamily(giveBack func() error) error {
	if b.family == "" { // this rank has told nobody of its heap
		return giveBack()
	}
	var errs []error
	for _, g := range families.leave(b.family, giveBack) {
		errs = append(errs, g())
	}
	return errors.Join(errs...)
}
