package flight

import (
	"runtime"
	"strings"
	"time"
)

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

// DumpOptions say what a dump holds. The zero value holds the groups and their status only.
type DumpOptions struct {
	Entries    bool // the operations
	Frames     bool // with their call stacks
	OnlyActive bool // without those that are completed
}

// BeforeDump sets the function that brings the records up to date before a dump. It must not wait for operations.
func (r *Recorder) BeforeDump(f func()) {
	if r != nil {
		r.fresh.Store(&f)
	}
}

// Dump returns what is recorded now. The dump is the caller's. That of nil knows no groups.
func (r *Recorder) Dump(o DumpOptions) *Dump {
	d := &Dump{Version: version, Library: library, Groups: map[string]Group{}, Status: map[string]Status{}}
	if o.Entries {
		d.Entries = []Entry{}
	}
	if r == nil {
		return d
	}
	if fresh := r.fresh.Load(); fresh != nil {
		(*fresh)()
	}
	d.Taken = time.Now().UnixNano()
	groups := *r.groups.now.Load()
	for _, g := range groups {
		d.Groups[g.Name] = Group{g.Name, g.Desc, append([]int{}, g.Ranks...)}
		d.Status[number(g.number)] = r.statusOf(g)
	}
	if !o.Entries {
		return d
	}
	r.mu.Lock()
	end := r.next
	r.mu.Unlock()
	for id := max(0, end-int64(len(r.slots))); id < end; id++ {
		s := r.locked(ID(id))
		if s == nil { // written over meanwhile
			continue
		}
		e, callers, skip := s.entry(groups), append([]uintptr{}, r.callersOf(int(id % int64(len(r.slots))))[:s.callers]...), int(s.skip)
		r.mu.Unlock()
		r.endOf(ID(id)).tell(&e)
		if o.OnlyActive && e.State == Completed {
			continue
		}
		if o.Frames {
			e.Frames = stack(callers, skip, r.depth)
		}
		d.Entries = append(d.Entries, e)
	}
	return d
}

// tell adds how far the operation of an entry has come.
func (e *end) tell(to *Entry) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.id != to.ID {
		return
	}
	to.Retired, to.Duration, to.DiscoveredCompleted = e.retired, e.took, e.completed
	if e.started != 0 {
		to.DiscoveredStarted = e.started
	}
	switch {
	case e.completed != 0:
		to.State = Completed
	case e.started != 0:
		to.State = Started
	}
}

// entry copies a slot, which is locked, without its callers and without its end.
func (s *slot) entry(groups groupList) Entry {
	e := Entry{ID: s.id, PG: int(s.pg), Seq: s.seq, P2PSeq: s.p2pSeq, OpID: s.opID, Name: s.name, P2P: s.p2p,
		Created: s.created, Duration: -1, Timeout: s.timeout, Tagged: s.tagged}
	if s.tagged {
		e.Tag = s.tag
	}
	if s.begun {
		e.State, e.DiscoveredStarted = Started, s.created
	}
	if g := groups.find(int(s.pg)); g != nil {
		e.Group, e.Desc = g.Name, g.Desc
	}
	l := s.all()
	sizes, types := make([][]int64, len(l.dims)), make([]string, len(l.dims))
	rest := append([]int64{}, l.sizes...)
	for i, n := range l.dims {
		sizes[i], rest = rest[:n:n], rest[n:]
		types[i] = typeName(l.types[i])
	}
	e.InSizes, e.OutSizes = sizes[:l.ins:l.ins], sizes[l.ins:]
	e.InTypes, e.OutTypes = types[:l.ins:l.ins], types[l.ins:]
	return e
}

// leaveOut is the number of callers that a slot has room for besides the callers to keep. They are the package's own, and as
// many as skip may leave out without costing one to keep.
const leaveOut = 10

// stack names at most depth callers of Add, but the first skip. One address can stand for several of them, of which all
// but the last are inlined.
func stack(callers []uintptr, skip, depth int) []Frame {
	var all []Frame
	begun := false
	frames := runtime.CallersFrames(callers)
	for more := len(callers) > 0; more && len(all) < depth; {
		var f runtime.Frame
		f, more = frames.Next()
		switch {
		case !begun:
			begun = strings.HasSuffix(f.Function, "flight.(*Recorder).Add")
		case skip > 0:
			skip--
		case f.Function != "":
			all = append(all, Frame{Name: f.Function, File: f.File, Line: f.Line})
		}
	}
	return all
}
