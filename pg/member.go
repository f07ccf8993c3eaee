package pg

import (
	"errors"
	"slices"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/internal/control"
	"github.com/colligo-go/colligo/pg/internal/op"
	"github.com/colligo-go/colligo/transport"
)

// member says which rank of which group this is.
type member struct {
	name       string
	rank, size int
	ranks      []int  // ranks of the default group, by rank of this group
	id         uint32 // in every frame
}

// globalRank is this rank's number in the default group, by which files are named.
func (m *member) globalRank() int {
	if m.rank < 0 || m.rank >= len(m.ranks) {
		return max(m.rank, 0)
	}
	return m.ranks[m.rank]
}

// renumbered returns the ranks of the default group by rank of this group, nil if they are the same.
func (m *member) renumbered() []int {
	for r, global := range m.ranks {
		if r != global {
			return m.ranks
		}
	}
	return nil
}

// explain wraps the cause of a failed call in who called what. It names the peer of a transport's error, which knows only this
// group's ranks.
func (m *member) explain(o *op.Op, at op.Seq, cause error, second bool) error {
	peer := colligo.NoRank
	var known *colligo.OpError
	var ended *abortion
	var link *transport.PeerError
	switch {
	case errors.As(cause, &known) && !second:
		return cause
	case known != nil || errors.As(cause, &ended): // which may be about another group, whose ranks have other numbers
	case errors.As(cause, &link):
		peer = link.Peer
	}
	e := m.failure(o.Coll.String(), at.Number(), peer, cause)
	e.What, e.Second = o.What(), second
	return e
}

// failure makes the error of an operation of this group. The operation has a number, or 0, and a peer, or colligo.NoRank. No step of a
// plan met the error.
func (m *member) failure(name string, number uint64, peer int, cause error) *colligo.OpError {
	return &colligo.OpError{Ranks: m.renumbered(), Group: m.name, Op: name, Seq: number, Rank: m.rank, Peer: peer, Lane: colligo.NoRank,
		Step: colligo.NoRank, Err: cause}
}

// sequenceOf returns the place of the collective that an error is about, 0 if it is none of this group's.
func (m *member) sequenceOf(err error) op.Seq {
	var e *colligo.OpError
	if errors.As(err, &e) && e.Group == m.name {
		return op.SeqOf(e.Seq)
	}
	return 0
}

// ungated makes the error of a monitored barrier from its cause; a nil cause is none.
func (m *member) ungated(turn uint64, peer int, cause error) error {
	if cause == nil {
		return nil
	}
	var said *control.Reported
	e := m.failure("monitored_barrier", turn, peer, cause)
	e.Second = errors.As(cause, &said)
	return e
}

// find returns the rank in this group of a rank of the default group, colligo.NoRank if it is none.
func (m *member) find(global int) int {
	if r := slices.Index(m.ranks, global); r >= 0 {
		return r
	}
	return colligo.NoRank
}
