package control

import (
	"slices"
	"sync"
	"time"

	"github.com/colligo-go/colligo/transport"
)

// calm is how long a rank calls no rooted collective before it tells a peer of the last.
const calm = 20 * time.Millisecond

// mostKept bounds the calls of peers that are kept until this rank has come so far.
const mostKept = 64

// roots finds ranks that mean different roots of one collective, where none of them waits for a frame that shows it.
type roots struct {
	mu    sync.Mutex
	last  uint64 // sequence number of the last collective of which the peer is to be told
	seen  uint64 // last, when the timer ran out
	peer  int
	armed bool
	timer *time.Timer
	kept  []kept
}

// kept is what a peer has told of a collective that this rank has yet to enter.
type kept struct {
	peer int
	m    *Message
}

// TellRoot has a peer told of a rooted collective that this rank has entered, as soon as this rank rests. So a busy program pays for
// none of its calls: its next frames show the difference.
func (c *Channel) TellRoot(seq uint64, peer int) {
	r := &c.roots
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last, r.peer = seq, peer
	switch {
	case r.armed:
		return
	case r.timer == nil:
		r.timer = time.AfterFunc(calm, c.tellRoot)
	default:
		r.timer.Reset(calm)
	}
	r.armed = true
}

// tellRoot tells the peer, unless there was another rooted collective since the timer last ran out.
func (c *Channel) tellRoot() {
	r := &c.roots
	r.mu.Lock()
	if r.seen != r.last {
		r.seen = r.last
		r.timer.Reset(calm)
		r.mu.Unlock()
		return
	}
	seq, peer := r.last, r.peer
	r.armed = false
	r.mu.Unlock()
	if call, ok := c.Progress.At(seq); ok && c.config.Failed() == nil {
		c.send(peer, &Message{Kind: Called, Seq: seq, Call: c.config.Describe(call)}, "root not told")
	}
}

// Keep keeps what a peer has called in a collective that this rank has yet to enter. It reports false if this rank has entered it.
func (c *Channel) Keep(peer int, m *Message) bool {
	r := &c.roots
	r.mu.Lock()
	defer r.mu.Unlock()
	c.Progress.keeps.Store(true)
	if c.Progress.newest().Seq >= m.Seq { // Entered looks at keeps after it
		c.Progress.keeps.Store(len(r.kept) > 0)
		return false
	}
	r.kept = append(r.kept[max(len(r.kept)-mostKept+1, 0):], kept{peer, m})
	return true
}

// Kept compares what peers have told of the collectives up to a sequence number, which this rank has entered. It is called where Keeps
// says that there is something to compare.
func (c *Channel) Kept(seq uint64) {
	r := &c.roots
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept = slices.DeleteFunc(r.kept, func(k kept) bool {
		if k.m.Seq <= seq {
			go c.config.Compare(k.peer, k.m) // the caller holds locks that Compare may need
		}
		return k.m.Seq <= seq
	})
	c.Progress.keeps.Store(len(r.kept) > 0)
}

// fewRanks is the most ranks of a group of which each tells rank 0 of its collectives on devices.
const fewRanks = 16

// RootTold returns the peer to which a rank has to tell a rooted collective, negative if there is none.
//
// Where ranks mean different roots, some that mean themselves may wait for nobody. So they tell rank 0. If rank 0 means one of them, it
// does not mean the others. If no rank means itself, neither does the rank that rank 0 means. So rank 0 tells that rank. All other
// cases show by frames, or by ranks that stand still.
//
// Kernels take the flags of one root for those of another. So on devices all ranks of a group tell rank 0, where they are few.
func RootTold(rank, size int, call *transport.Call, device bool) (peer int) {
	root := int(call.Root)
	switch {
	case rank != 0 && (root == rank || device && size <= fewRanks):
		return 0
	case rank == 0 && root != 0:
		return root
	}
	return -1
}
