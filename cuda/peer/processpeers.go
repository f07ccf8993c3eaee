package peer

import (
	"errors"
	"sync"
)

// intra-process peers is the ranks of a group that share a process. Symmetric heaps within it are used by address, so the last rank that closes
// gives back those of all: until then a peer may still write into the symmetric heap of a rank that has left.
type processPeers struct {
	present int
	leaving []func() error // of the ranks that have left
}

// registry finds intra-process peers by name.
type registry struct {
	sync.Mutex
	by map[string]*processPeers
}

var intraProcess = &registry{by: map[string]*processPeers{}}

// join makes a rank a member.
func (r *registry) join(name string) {
	r.Lock()
	defer r.Unlock()
	if r.by[name] == nil {
		r.by[name] = &processPeers{}
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

// joinProcessPeers makes this rank a member. All ranks have joined before one writes into another's symmetric heap.
func (b *backend) joinProcessPeers(name string) {
	intraProcess.join(name)
	b.processPeers = name
}

// leaveProcessPeers runs giveBack, and those of all who have left, when no member is present any more.
func (b *backend) leaveProcessPeers(giveBack func() error) error {
	if b.processPeers == "" { // this rank has told nobody of its symmetric heap
		return giveBack()
	}
	var errs []error
	for _, g := range intraProcess.leave(b.processPeers, giveBack) {
		errs = append(errs, g())
	}
	return errors.Join(errs...)
}
