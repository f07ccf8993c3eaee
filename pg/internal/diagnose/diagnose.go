// Package diagnose explains why an operation is late: from snapshots of the ranks it makes one line, and names the ranks at
// fault. It also words in what ranks differ that called different collectives.
//
// The package is pure. It reads no clock, takes no lock and sends nothing; package control collects what it works on.
//
// Invariants:
//  1. The same snapshots give the same line and the same suspects, in whatever order the answers came.
//  2. Nothing in a snapshot is trusted, for peers have written it: a rank that does not exist is named but never looked up.
//  3. A line has a bounded length, however many ranks there are or say they wait for.
package diagnose

import (
	"errors"
	"slices"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/plan"
)

// AnyPeer stands for the peer of a receive that takes a message from whichever rank sends first.
const AnyPeer = plan.None

// MostNamed bounds how many peers a rank names: those of its pending sends and receives, and the links of a chain.
const MostNamed = 16

// Snapshot is where one rank stood when it answered a progress query. Seq and Done only order operations.
type Snapshot struct {
	Seq    uint64 // the collective entered last
	Done   uint64 // the last collective that is complete
	Number uint64 // of Done, as the program counts its collectives
	Call   string // the collective entered last, in words
	Asked  string // the collective of the late call's number, in words, where the rank has gone on from it and remembers it
	Sends  []int  // peers of pending sends
	Recvs  []int  // peers of pending receives, AnyPeer among them

	// Of the collective under way, which is At; empty where it moves, or where its rank does not tell.
	At   uint64        // as Seq, of the collective that the rank is in; 0: of none
	From []int         // peers from which it waits for bytes
	Sent map[int]int64 // bytes that it has handed over, by peer
	Got  map[int]int64 // bytes that have arrived, by peer
}

// Over reports whether the rank of a snapshot is through with an operation of its own.
func (s Snapshot) Over(o *Operation) bool {
	pending := s.Recvs
	switch {
	case !o.pair():
		return s.Done >= o.Seq
	case o.Coll == plan.Send:
		pending = s.Sends
	}
	return len(pending) < MostNamed && !slices.Contains(pending, o.Peer)
}

// Snapshots holds what ranks have answered, by rank. A rank that has not answered is absent.
type Snapshots map[int]Snapshot

// Operation is a call that has exceeded its time limit, as the rank that reports it sees it.
type Operation struct {
	Rank, Size int               // of the rank that reports
	Coll       plan.Coll         // plan.Send and plan.Recv are between two ranks
	Seq        uint64            // as Snapshot.Seq
	Call       string            // as Snapshot.Call
	After      string            // the time that it has taken
	Device     bool              // its tensors are on a device, on which something else may hang
	Left       []int             // ranks that have closed the group; they answer nothing, and no fault of theirs is known
	Past       map[uint64]string // calls that this rank has gone on from, in words and by Seq, where a peer is in that collective
	Global     []int             // ranks of the default group by rank of this one; nil where messages need not give them

	// Of a send or receive.
	Peer, Tag  int
	Unexpected []string // one text for each message that has come and that nothing receives
}

func (o *Operation) pair() bool { return o.Coll == plan.Send || o.Coll == plan.Recv }

// Report is why an operation is late.
type Report struct {
	Line     string
	Class    error // colligo.ErrTimeout, or colligo.ErrMismatch where a rank called something else
	Suspects []int // ranks at fault in ascending order; nil where the snapshots do not tell
}

// Explain reports why an operation is late, from this rank's own snapshot and those of the peers that have answered.
func Explain(o *Operation, own Snapshot, peers Snapshots) Report {
	r := Report{Class: colligo.ErrTimeout}
	if o.pair() {
		r.Line = pairLine(o, peers)
	} else {
		r.Line, r.Class = line(o, own, peers)
	}
	if r.Class == colligo.ErrTimeout {
		r.Suspects = suspects(o, own, peers)
	}
	return r
}

// Err is the report as an error.
func (r *Report) Err() error { return WithClass(errors.New(r.Line), r.Class) }

// classed is an error with the sentinel that callers branch on.
type classed struct{ err, class error }

// WithClass gives an error the sentinel that callers branch on, without changing its text.
func WithClass(err, class error) error { return &classed{err, class} }

// Error is the error's own text.
func (e *classed) Error() string { return e.err.Error() }

// Unwrap returns both.
func (e *classed) Unwrap() []error { return []error{e.class, e.err} }
