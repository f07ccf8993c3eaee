package watchdog

import (
	"errors"

	"github.com/colligo-go/colligo/pg/backend"
)

// Leaver is what a peer that leaves the group in order says of its operations on devices. A later one with it can never end.
type Leaver struct {
	Collective   uint64 // the last that can complete with it
	Sends, Recvs uint64 // its messages to this rank and from it that are done; Unknown where graphs have some
}

// Unknown is a number of messages of which graphs have some, for nobody counts how often those are launched.
const Unknown = ^uint64(0)

// messages are how many sends and receives on devices have ended well, by peer. Messages of a pair are matched in their order.
type messages struct{ sends, recvs map[int]uint64 }

// ended counts a message.
func (m *messages) ended(q, peer int, err error) {
	if m.sends == nil {
		m.sends, m.recvs = map[int]uint64{}, map[int]uint64{}
	}
	by := m.of(q)
	switch {
	case errors.Is(err, backend.ErrCaptured):
		by[peer] = Unknown
	case err == nil && by[peer] != Unknown:
		by[peer]++
	}
}

func (m *messages) of(q int) map[int]uint64 {
	if q == sends {
		return m.sends
	}
	return m.recvs
}

// Leaving returns what this rank says to a peer when it leaves after a collective. The group's pending operations have had their time.
func (d *Devices) Leaving(peer int, last uint64) Leaver {
	d.eyes.Lock()
	defer d.eyes.Unlock()
	if e, _, pending := d.oldest(collectives); pending {
		last = min(last, e.number-1)
	}
	return Leaver{last, d.messages.sends[peer], d.messages.recvs[peer]}
}

// Leaves hears that a peer leaves the group. Operations of this rank that need more of it can never end, and the group hears of them soon.
func (d *Devices) Leaves(peer int, l Leaver) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.leavers == nil {
		d.leavers = map[int]Leaver{}
	}
	d.leavers[peer] = l
}

// leftBefore returns the peer that has left before the oldest operation of a queue: the first of them in the order of the ranks.
func (d *Devices) leftBefore(q int, e *entry) (peer int, left bool) {
	d.eyes.Lock() // of messages the count is the looker's
	defer d.eyes.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	if q != collectives {
		l, left := d.leavers[int(e.peer)]
		theirs, ours := l.Sends, d.messages.of(q)[int(e.peer)]
		if q == sends {
			theirs = l.Recvs
		}
		return int(e.peer), left && theirs != Unknown && ours != Unknown && ours >= theirs
	}
	for p, l := range d.leavers {
		if l.Collective < e.number && (!left || p < peer) {
			peer, left = p, true
		}
	}
	return peer, left
}
