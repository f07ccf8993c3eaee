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
	mu sync.Mutex
	by map[int]error
}

// Add enters a peer, with transport.ErrGoodbye as the error if it has not died.
func (d *Departed) Add(peer int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.by == nil {
		d.by = map[int]error{}
	}
	d.by[peer] = err
}

func (d *Departed) peers() []int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Keys(d.by))
}

// Left returns the peers that have closed the group, in ascending order. Peers that died are not among them.
func (d *Departed) Left() []int {
	d.mu.Lock()
	defer d.mu.Unlock()
	var left []int
	for peer, err := range d.by {
		if errors.Is(err, transport.ErrGoodbye) {
			left = append(left, peer)
		}
	}
	slices.Sort(left)
	return left
}

// has reports whether a peer is gone, and whether it died.
func (d *Departed) has(peer int) (gone, died bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	err, gone := d.by[peer]
	return gone, gone && !errors.Is(err, transport.ErrGoodbye)
}
