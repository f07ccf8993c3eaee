package pg

import (
	"errors"
	"maps"
	"slices"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/flight"
	"github.com/colligo-go/colligo/transport"
)

// blame is an error with the ranks of the group whose doing it is.
type blame struct {
	err   error
	ranks []int
}

// Error is that of the error alone, which names the ranks in its own words.
func (e *blame) Error() string { return e.err.Error() }

// Unwrap returns the error.
func (e *blame) Unwrap() error { return e.err }

// blamed returns whose doing a group's error is, nil if nobody can tell: of two that differ it may be either.
func blamed(err error) []int {
	var ended *abortion
	var told *blame
	var heard *reported
	var lost *transport.PeerError
	switch {
	case errors.As(err, &ended):
		return nil // the reason may be another group's error, whose ranks have other numbers
	case errors.As(err, &heard):
		return heard.blames
	case errors.As(err, &told):
		return told.ranks
	case errors.Is(err, colligo.ErrPeerLost) && errors.As(err, &lost):
		return []int{lost.Peer}
	}
	return nil
}

// culprits returns whose doing it is that an operation is late, as far as the peers' answers tell: who does not answer, else
// who has nothing to do while others wait, else the rank at the end of the chain of those that wait for messages.
func (g *Group) culprits(op *operation, got map[int]note) []int {
	all := answered{g.rank: g.here()}
	maps.Copy(all, got)
	var silent []int
	for peer := range g.size {
		if _, ok := all[peer]; !ok {
			silent = append(silent, peer)
		}
	}
	switch {
	case silent != nil:
		return silent
	case op.isPair():
		return all.atEnd([]int{op.peer})
	case op.device.Kind != colligo.CPU: // of those nobody says which are complete
		return all.last(op.seq)
	}
	if idle := all.idle(op.seq); idle != nil {
		return idle
	}
	var waiting []int // for messages; who is in an earlier collective waits for others that are behind
	for peer, n := range all {
		if n.Seq < op.seq && n.Seq <= n.Done {
			waiting = append(waiting, peer)
		}
	}
	return all.atEnd(waiting)
}

// answered is where all ranks of a group are.
type answered map[int]note

// idle returns the ranks that have not come to a collective and have nothing pending.
func (a answered) idle(seq uint64) []int {
	var idle []int
	for peer, n := range a {
		if n.Seq < seq && n.Seq <= n.Done && len(n.Sends)+len(n.Recvs) == 0 {
			idle = append(idle, peer)
		}
	}
	slices.Sort(idle)
	return idle
}

// last returns the ranks that have come least far, if that is not as far as a collective.
func (a answered) last(seq uint64) []int {
	least := seq
	for _, n := range a {
		least = min(least, n.Seq)
	}
	var last []int
	for peer, n := range a {
		if n.Seq == least && n.Seq < seq {
			last = append(last, peer)
		}
	}
	slices.Sort(last)
	return last
}

// atEnd follows ranks that wait for messages to those that wait for none, or for ranks that have not come to a collective.
func (a answered) atEnd(todo []int) []int {
	var ends []int
	for seen := map[int]bool{}; len(todo) > 0; todo = todo[1:] {
		peer := todo[0]
		n, ok := a[peer]
		if !ok || seen[peer] { // not a rank where it waits for any
			continue
		}
		seen[peer] = true
		idle := a.idle(n.Seq)
		switch next := slices.Concat(n.Recvs, n.Sends); {
		case len(next) > 0:
			todo = slices.Concat(todo, next)
		case n.Seq > n.Done && idle != nil:
			ends = append(ends, idle...)
		default:
			ends = append(ends, peer)
		}
	}
	slices.Sort(ends)
	return slices.Compact(ends)
}

// mostBlamed bounds the ranks that a note and a dump name as those to blame.
const mostBlamed = 1024

// failures are the errors of the groups that have failed, for a dump.
func (o *openGroups) failures() map[string]flight.Failure {
	var all map[string]flight.Failure
	for _, g := range o.list() {
		err := g.Err()
		if err == nil || errors.Is(err, colligo.ErrClosed) {
			continue
		}
		f := flight.Failure{Text: clip(err.Error())}
		var heard *reported
		if errors.As(err, &heard) {
			f.Text = heard.text
		}
		for _, rank := range blamed(err) {
			f.Ranks = append(f.Ranks, g.ranks[rank])
		}
		if all == nil {
			all = map[string]flight.Failure{}
		}
		all[g.name] = f
	}
	return all
}
