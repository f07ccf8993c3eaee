package pg

import (
	"slices"
	"sync"

	"github.com/colligo-go/colligo/pg/flight"
	"github.com/colligo-go/colligo/pg/internal/bootstrap"
)

// sharedJob is what all groups of one Init share: the store in which they form, and what looks after them.
type sharedJob struct {
	*bootstrap.Job
	recorder *flight.Recorder // of all groups, nil if off
	open     openGroups
	monitor  monitor
	dumper   dumper
}

// openGroups are the groups that have formed and are not closed.
type openGroups struct {
	mu  sync.Mutex
	all []*Group // in the order of their making
}

func (o *openGroups) add(g *Group) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, g)
}

// remove takes a group out, if it is there.
func (o *openGroups) remove(g *Group) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if i := slices.Index(o.all, g); i >= 0 {
		o.all = slices.Delete(o.all, i, i+1)
	}
}

// list returns the groups in the order of their making.
func (o *openGroups) list() []*Group {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.all)
}
