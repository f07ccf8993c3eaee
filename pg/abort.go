package pg

import (
	"errors"
	"fmt"
)

// ErrAborted is among the causes of the errors of a group that Abort has ended, on all ranks.
var ErrAborted = errors.New("group aborted")

// Abort ends the group on all ranks for a reason of the program's own; a nil reason is allowed. Pending operations fail, and
// every later one does. Their errors name the reason, and ErrAborted is among their causes.
//
// It does not wait. It may be called from any goroutine, more than once, and while operations are pending. Operations on a
// device end as the mode of Config.Watchdog says. The group is still to be closed. c10d: ProcessGroup.abort.
func (g *Group) Abort(reason error) {
	if g == nil || g.rank < 0 {
		return // not a member
	}
	g.fail(&abortion{g.rank, reason}, true)
}

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
