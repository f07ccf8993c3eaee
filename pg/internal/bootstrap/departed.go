package bootstrap

import (
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/colligo-go/colligo/transport"
)

// Departed is the peers that have ended their part of the group, and how.
type Departed struct {
	mu   sync.Mutex
	by   map[int]error
	tell func(peer int) // called with each peer that departs; nil: nobody watches
}

// Add enters a peer, with transport.ErrGoodbye as the error if it has not died.
func (d *Departed) Add(peer int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.by == nil {
		d.by = map[int]error{}
	}
	d.by[peer] = err
	if d.tell != nil {
		d.tell(peer)
	}
}

// Watch calls f for all peers that have departed and all that will, until stop. There is one watcher at a time.
func (d *Departed) Watch(f func(peer int)) (stop func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for peer := range d.by {
		f(peer)
	}
	d.tell = f
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.tell = nil
	}
}

func (d *Departed) peers() []int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Keys(d.by))
}

// has reports whether a peer is gone, and whether it died.
func (d *Departed) has(peer int) (gone, died bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	err, gone := d.by[peer]
	return gone, gone && !errors.Is(err, transport.ErrGoodbye)
}
