package pg

import (
	"errors"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/flight"
	"github.com/colligo-go/colligo/pg/internal/control"
	"github.com/colligo-go/colligo/transport"
)

// suspected is an error with the ranks of the group that are at fault.
type suspected struct {
	err   error
	ranks []int
}

// Error is that of the error alone, which names the ranks in its own words.
func (e *suspected) Error() string { return e.err.Error() }

// Unwrap returns the error.
func (e *suspected) Unwrap() error { return e.err }

// suspectsOf returns the ranks at fault in a group's error, nil if nothing tells them: of two ranks that differ it may be
// either.
func suspectsOf(err error) []int {
	var ended *abortion
	var told *suspected
	var heard *control.Reported
	var lost *transport.PeerError
	switch {
	case errors.As(err, &ended):
		return nil // the reason may be another group's error, whose ranks have other numbers
	case errors.As(err, &heard):
		return heard.Suspects
	case errors.As(err, &told):
		return told.ranks
	case errors.Is(err, colligo.ErrPeerLost) && errors.As(err, &lost):
		return []int{lost.Peer}
	}
	return nil
}

// failures are the errors of the groups that have failed, for a dump.
func (o *openGroups) failures() map[string]flight.Failure {
	var all map[string]flight.Failure
	for _, g := range o.list() {
		err := g.Err()
		if err == nil || errors.Is(err, colligo.ErrClosed) {
			continue
		}
		f := flight.Failure{Text: clip(err.Error())}
		var heard *control.Reported
		if errors.As(err, &heard) {
			f.Text = heard.Text
		}
		for _, rank := range suspectsOf(err) {
			f.Ranks = append(f.Ranks, g.ranks[rank])
		}
		if all == nil {
			all = map[string]flight.Failure{}
		}
		all[g.name] = f
	}
	return all
}
