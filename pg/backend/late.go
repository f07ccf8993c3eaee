package backend

import (
	"time"

	"github.com/colligo-go/colligo/plan"
)

// Late is an error for Host.Fail: a device has not ended its operations within their limit. The group asks all ranks where they are, and
// fails with an error that names the ranks at fault.
type Late struct {
	Coll  plan.Coll     // plan.Send or plan.Recv of operations between two ranks; any other of collectives
	After time.Duration // the limit
	Says  string        // what the device waits for, as in "it waits for rank 1"; empty where it does not tell
	Err   error         // for a group that knows of no such operation, as of one that a graph replays
}

// Error is that of Err.
func (l *Late) Error() string { return l.Err.Error() }

// Unwrap returns Err.
func (l *Late) Unwrap() error { return l.Err }
