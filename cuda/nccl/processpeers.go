package nccl

import (
	"fmt"
	"sync"
	"time"
)

// processPeers are the ranks of one communicator in this process. The library leaves the communicators of all of them to the last one's call
// of ncclCommDestroy, and frees their memory there. For that the driver waits until the devices of these ranks are idle. A rank that went on
// to an operation that waits for the last rank would keep its device busy. So the ranks wait for one another.
type processPeers struct {
	name    string
	present int           // ranks that may still call the library; under processes
	gone    chan struct{} // closed when there is none
}

// registry finds the ranks of a communicator by its name.
type registry struct {
	sync.Mutex
	by map[string]*processPeers
}

var processes = &registry{by: map[string]*processPeers{}}

// enter counts one more rank of a communicator.
func (r *registry) enter(name string) *processPeers {
	r.Lock()
	defer r.Unlock()
	p := r.by[name]
	if p == nil {
		p = &processPeers{name: name, gone: make(chan struct{})}
		r.by[name] = p
	}
	p.present++
	return p
}

// leave counts one rank less.
func (r *registry) leave(p *processPeers) {
	r.Lock()
	defer r.Unlock()
	if p.present--; p.present == 0 {
		close(p.gone)
		delete(r.by, p.name)
	}
}

// made calls the library to make the communicator. The name is the same on all its ranks, and no other communicator has it. Without a name
// no rank waits for another. A communicator that does not block may get its handle later.
func (c *Comm) made(name string, call func() error) error {
	if name != "" {
		c.peers = processes.enter(name)
	}
	err := call()
	if err != nil || c.handle == 0 && !c.nonBlocking {
		c.leave()
	}
	return err
}

// leave tells the ranks of the process that the library has destroyed the communicator, or has not made it. It may be called again.
func (c *Comm) leave() {
	if c.peers != nil {
		c.left.Do(func() { processes.leave(c.peers) })
	}
}

// awaitProcessPeers waits until no rank of the process has the communicator any more, or for a limit.
func (c *Comm) awaitProcessPeers(limit time.Duration) {
	if c.peers == nil {
		return
	}
	select {
	case <-c.peers.gone:
	case <-time.After(limit):
	}
}

// nameOfSplit returns the name of the next communicator that Split makes of this one, none for a rank that gets none.
func (c *Comm) nameOfSplit(color int) string {
	if c.splits++; color == NoColor {
		return ""
	}
	return c.nameOf("split", c.splits, color)
}

// nameOfShrink returns the name of the next communicator that Shrink makes of this one.
func (c *Comm) nameOfShrink() string {
	c.shrinks++
	return c.nameOf("shrink", c.shrinks, 0)
}

// nameOf returns the name of a communicator that is made of this one. It has none if this one has none.
func (c *Comm) nameOf(call string, number, color int) string {
	if c.peers == nil {
		return ""
	}
	return fmt.Sprintf("%s/%s %d/%d", c.peers.name, call, number, color)
}
