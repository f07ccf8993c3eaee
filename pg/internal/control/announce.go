package control

import (
	"sync"

	"github.com/colligo-go/colligo/transport"
)

// mostAnnounced bounds the calls that are remembered as announced.
const mostAnnounced = 256

// announced are the calls that this rank has announced, without their sequence numbers.
type announced struct {
	mu   sync.Mutex
	last transport.Call
	all  map[transport.Call]bool
}

// first reports whether a call with these arguments is announced for the first time.
func (a *announced) first(call transport.Call) bool {
	call.Seq = 0
	a.mu.Lock()
	defer a.mu.Unlock()
	if call == a.last {
		return false
	}
	a.last = call
	if a.all[call] {
		return false
	}
	if a.all == nil || len(a.all) == mostAnnounced {
		a.all = map[transport.Call]bool{}
	}
	a.all[call] = true
	return true
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
