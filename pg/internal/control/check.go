package control

import (
	"sync"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/internal/diagnose"
)

// checks are the fingerprint checks of the collectives that not all ranks have entered.
type checks struct {
	mu sync.Mutex
	by map[uint64]*Check
}

// Check gathers the ranks' fingerprints of one collective.
type Check struct {
	of     []*diagnose.Fingerprint // by rank
	absent int
	full   chan struct{} // closed when none is absent

	LeftAt time.Time // when the rank that waits has first seen that an absent rank has left the group
}

// maxChecks bounds what peers can make a rank remember. Operations on devices may be that far ahead.
const maxChecks = 256

// put takes a rank's fingerprint and returns the check that it belongs to, nil if there is no room for another.
func (cs *checks) put(size, rank int, seq uint64, f *diagnose.Fingerprint) *Check {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.by == nil {
		cs.by = map[uint64]*Check{}
	}
	k := cs.by[seq]
	if k == nil {
		if len(cs.by) >= maxChecks {
			return nil
		}
		k = &Check{of: make([]*diagnose.Fingerprint, size), absent: size, full: make(chan struct{})}
		cs.by[seq] = k
	}
	if k.of[rank] == nil {
		k.of[rank] = f
		if k.absent--; k.absent == 0 {
			close(k.full)
		}
	}
	return k
}

// take takes a peer's fingerprint.
func (c *Channel) take(peer int, m *Message) {
	if m.Fingerprint != nil && c.config.Fingerprints {
		c.checks.put(c.config.Size, peer, m.Seq, m.Fingerprint)
		c.config.Wake()
	}
}

// Check tells the peers what this rank calls in a collective. All ranks have entered the collective when the check is full,
// so that a timeout names the ranks that are missing. It returns nil if too many collectives are ahead of the slowest rank.
func (c *Channel) Check(seq uint64, f *diagnose.Fingerprint) *Check {
	k := c.checks.put(c.config.Size, c.config.Rank, seq, f)
	c.Tell(&Message{Kind: Fingerprint, Seq: seq, Fingerprint: f})
	return k
}

// Absent returns the first of some ranks that has not told its fingerprint, colligo.NoRank if all have.
func (c *Channel) Absent(k *Check, ranks []int) int {
	c.checks.mu.Lock()
	defer c.checks.mu.Unlock()
	for _, r := range ranks {
		if k.of[r] == nil {
			return r
		}
	}
	return colligo.NoRank
}

// Full is closed when every rank has told its fingerprint.
func (k *Check) Full() <-chan struct{} { return k.full }

// Compare ends a full check. It says in what the ranks differ, and nothing if they do not.
func (c *Channel) Compare(seq uint64, k *Check) string {
	c.checks.mu.Lock()
	delete(c.checks.by, seq)
	c.checks.mu.Unlock()
	return diagnose.Differences(k.of)
}
