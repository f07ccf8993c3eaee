package pg

import (
	"errors"
	"fmt"

	"github.com/colligo-go/colligo"
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

// ErrAborted is among the causes of the errors of a group that Abort has ended, on all ranks.
var ErrAborted = errors.New("group aborted")

// abortion is the group's error after Abort.
type abortion struct {
	rank   int
	reason error
}

// Error says who ended the group and why.
func (e *abortion) Error() string {
	if e.reason == nil {
		return fmt.Sprintf("group aborted by rank %d", e.rank)
	}
	return fmt.Sprintf("group aborted by rank %d: %v", e.rank, e.reason)
}

// Unwrap returns ErrAborted and the reason.
func (e *abortion) Unwrap() []error {
	if e.reason == nil {
		return []error{ErrAborted}
	}
	return []error{ErrAborted, e.reason}
}
