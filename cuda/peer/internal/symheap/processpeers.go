package symheap

import (
	"errors"
	"sync"
)

// processPeers are the ranks of a group that share a process. They use one another's heaps by address, so the last rank that closes
// gives all of them back. Until then a peer may still write into the heap of a rank that has left.
type processPeers struct {
	present int
	leaving []func() error // of the ranks that have left
}

// registry finds processes by name.
type registry struct {
	sync.Mutex
	by map[string]*processPeers
}

var processes = &registry{by: map[string]*processPeers{}}

// join makes a rank a member.
func (r *registry) join(name string) {
	r.Lock()
	defer r.Unlock()
	if r.by[name] == nil {
		r.by[name] = &processPeers{}
	}
	r.by[name].present++
}

// leave returns the functions that give memory back: none while a member is present.
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

// joinProcess makes this rank a member. All ranks have joined before one writes into another's heap.
func (h *Heap) joinProcess(name string) {
	processes.join(name)
	h.processPeers = name
}

// ProcessPeers returns a name that this rank and its peers in this process have for themselves, from Meet to Leave.
func (h *Heap) ProcessPeers() string { return h.processPeers }

// Leave runs giveBack when no rank of the group is present in this process any more, after that of every rank that has left.
func (h *Heap) Leave(giveBack func() error) error {
	if h.processPeers == "" { // no peer has been told of the heap
		return giveBack()
	}
	name := h.processPeers
	h.processPeers = ""
	var errs []error
	for _, g := range processes.leave(name, giveBack) {
		errs = append(errs, g())
	}
	return errors.Join(errs...)
}
