package colligo

import (
	"errors"
	"fmt"
	"strings"
)

// Causes that callers branch on with errors.Is.
var (
	ErrTimeout  = errors.New("timeout")
	ErrMismatch = errors.New("ranks called different operations")
	ErrPeerLost = errors.New("peer lost")
	ErrClosed   = errors.New("group closed")
	ErrCorrupt  = errors.New("corrupt frame")
)

// NoRank stands for "no particular rank" in errors and reports.
const NoRank = -1

// OpError tells which operation failed, where and why. Every error of a collective is one.
type OpError struct {
	Group  string // name of the group
	Op     string // such as "all_reduce"
	Seq    uint64 // sequence number of the operation in its group; 0 when none was taken
	What   string // what was called, such as "float32 sum, 4 MiB"
	Rank   int    // the rank that reports
	Peer   int    // the rank at fault or last spoken to, NoRank if unknown
	Lane   int    // NoRank if the error is not about one lane
	Step   int    // NoRank if the error is not about one step
	Second bool   // the operation failed as a consequence of an error that another rank or operation met first
	Ranks  []int  // ranks of the default group by rank of this one; nil where they are the same
	Err    error  // the cause
}

// NewOpError returns the error of an operation that a rank reports. It names no peer, no lane and no step.
func NewOpError(group, op string, seq uint64, rank int, cause error) *OpError {
	return &OpError{Group: group, Op: op, Seq: seq, Rank: rank, Peer: NoRank, Lane: NoRank, Step: NoRank, Err: cause}
}

// Error says it on one line: the call, the cause, and in brackets the rank that reports and its group. In a group that numbers its
// ranks in another way than the default group, it gives both numbers, as in "rank 1 (global 5)".
func (e *OpError) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	if e.Seq > 0 {
		fmt.Fprintf(&b, " #%d", e.Seq)
	}
	if e.What != "" {
		fmt.Fprintf(&b, " (%s)", e.What)
	}
	b.WriteString(": ")
	// A peer that reports the error of the same operation names it, too.
	why := strings.Replace(fmt.Sprint(e.Err), b.String(), "", 1)
	fmt.Fprintf(&b, "%s [rank %d%s", why, e.Rank, e.global(e.Rank))
	if e.Group != "" {
		fmt.Fprintf(&b, " of group %s", e.Group)
	}
	for _, at := range [...]struct {
		name  string
		value int
	}{{"peer", e.Peer}, {"lane", e.Lane}, {"step", e.Step}} {
		if at.value != NoRank {
			fmt.Fprintf(&b, ", %s %d", at.name, at.value)
		}
		if at.name == "peer" {
			b.WriteString(e.global(e.Peer))
		}
	}
	if e.Second {
		b.WriteString(", a consequence")
	}
	b.WriteString("]")
	return b.String()
}

// global prints a rank's number in the default group, if it is another.
func (e *OpError) global(rank int) string {
	if rank < 0 || rank >= len(e.Ranks) || e.Ranks[rank] == rank {
		return ""
	}
	return fmt.Sprintf(" (global %d)", e.Ranks[rank])
}

// Unwrap returns the cause.
func (e *OpError) Unwrap() error { return e.Err }

// FormatBytes prints a number of bytes with a binary unit, such as "4 MiB" or "12 B"; exact multiples have no fraction.
func FormatBytes(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	f, u := float64(n), 0
	for f >= 1023.95 && u < len(units)-1 { // what would print as 1024.0 is 1.0 of the next unit
		f, u = f/1024, u+1
	}
	if f == float64(int64(f)) {
		return fmt.Sprintf("%d %s", int64(f), units[u])
	}
	return fmt.Sprintf("%.1f %s", f, units[u])
}
