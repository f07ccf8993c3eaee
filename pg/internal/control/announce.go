package control

import (
	"sync"
	"sync/atomic"

	"github.com/colligo-go/colligo/transport"
)

// mostAnnounced bounds the calls that are remembered as announced.
const mostAnnounced = 256

// announced are the calls that this rank has announced.
type announced struct {
	last atomic.Pointer[transport.Call] // of all, the one that was made last: a program that repeats a call takes no lock

	mu  sync.Mutex
	all map[transport.Call]*transport.Call // by the call without its sequence number
}

// first reports whether a call with these arguments is announced for the first time.
func (a *announced) first(call transport.Call) bool {
	call.Seq = 0
	a.mu.Lock()
	defer a.mu.Unlock()
	if known := a.all[call]; known != nil {
		a.last.Store(known)
		return false
	}
	if a.all == nil || len(a.all) == mostAnnounced {
		a.all = map[transport.Call]*transport.Call{}
	}
	a.all[call] = &call
	a.last.Store(&call)
	return true
}

// sameArguments reports whether two calls differ in their sequence numbers at most.
func sameArguments(a, b *transport.Call) bool {
	return a.Count == b.Count && a.Root == b.Root && a.DType == b.DType && a.Coll == b.Coll && a.Op == b.Op && a.Group == b.Group
}

// Repeated reports whether a call has the arguments of the one before, so that it needs no Announce.
func (c *Channel) Repeated(call *transport.Call) bool {
	last := c.announced.last.Load()
	return last != nil && sameArguments(last, call)
}

// Announce tells of a collective that this rank has entered, the first time that it is called with these arguments. Every rank
// tells rank 0, and rank 0 tells all. Each compares with its own calls.
//
// It is for collectives in which a rank may only send. Two ranks that both are root by their own word wait for nobody. They
// would find no frame of each other's before they next receive.
func (c *Channel) Announce(call transport.Call) {
	if !c.announced.first(call) {
		return
	}
	m := &Message{Kind: Called, Seq: call.Seq, Call: c.config.Describe(call)}
	if c.config.Rank == 0 {
		c.Tell(m)
	} else {
		c.send(0, m, "call not announced")
	}
}
