package flight

import "time"

// State is how far an operation has come.
type State uint8

// The states, in the order in which an operation goes through them.
const (
	Scheduled State = iota // called, and waiting for its turn
	Started                // on its way
	Completed              // done, without error
)

// String is the state's name in a dump.
func (s State) String() string { return [...]string{"scheduled", "started", "completed"}[s] }

// Frame is one call of a stack, the innermost first.
type Frame struct {
	Name string
	File string
	Line int
}

// Entry is one operation of a dump. Times are nanoseconds since 1970, 0 where unknown.
type Entry struct {
	ID                   int64  // counts all recorded operations of the process, from 0
	PG                   int    // number of the group on its rank
	Group, Desc          string // name and description of the group
	Seq, P2PSeq, OpID    uint64 // of collectives, of sends and receives, and of calls, each from 1
	Name                 string // such as "nccl:all_reduce" or "nccl:send 0->1"
	InSizes, OutSizes    [][]int64
	InTypes, OutTypes    []string // such as "Float"
	State                State
	Created              int64
	DiscoveredStarted    int64
	DiscoveredCompleted  int64
	Duration             time.Duration // negative where it was not measured
	Timeout              time.Duration
	Retired              bool // no longer pending: done, or given up
	P2P                  bool
	ThreadID, ThreadName string
	Frames               []Frame

	// Tag is that of a send or receive; Tagged reports whether it is known. PyTorch's format has no such thing.
	Tag    int32
	Tagged bool
}

// Group is a group of a dump. Ranks are those of the default group.
type Group struct {
	Name, Desc string
	Ranks      []int
}

// Status is how far a group has come, by sequence numbers of its collectives; -1 for none.
type Status struct {
	LastEnqueued, LastStarted, LastCompleted int64
}

// Failure is why a group has failed, as one rank knows it.
type Failure struct {
	Text  string // the error of the rank that found it
	Ranks []int  // whose doing it is, as far as that rank can tell; those of the default group
	Time  int64  // when the rank's group failed, in nanoseconds since 1970; 0 where unknown
}

// Dump is what one rank remembers.
type Dump struct {
	Version string            // of the format, such as "2.10"
	Library string            // version of the communication library
	Groups  map[string]Group  // by name
	Status  map[string]Status // by the number of the group, in decimal
	Entries []Entry           // the oldest first
	Comms   map[string]map[string]string

	// PyTorch's format has neither of these.
	Failures map[string]Failure // of groups that have failed, by name
	Taken    int64              // when the dump was taken, in nanoseconds since 1970; 0 where unknown
}
