package flight

import (
	"sync"
	"sync/atomic"
)

// groups are the groups that a recorder knows: the open ones, and closed ones while an operation of theirs is recorded.
//
// Adding a group and closing one take constant time on average. Memory is bounded by the number of open groups and by the
// recorder's capacity.
type groups struct {
	mu     sync.Mutex
	made   int                       // groups so far, which is the next one's number
	closed int                       // groups in now that are closed
	needed int                       // of them, groups of which operations were recorded when the recorder last looked
	now    atomic.Pointer[groupList] // read without the lock, which Add does not take
}

// groupList is groups in the order of their numbers. Elements are never replaced; a list is longer than another or a new one.
type groupList []*group

// fewClosed is the number of closed groups that a recorder keeps in any case.
const fewClosed = 64

// group is a group and how far its collectives have come, -1 for none.
type group struct {
	Group
	number             int
	closed             bool     // under the lock of groups
	enqueued           int64    // of those that were not started as they were called; under the lock of the slots
	_                  [64]byte // callers write the one, the watchdog of devices the others
	started, completed atomic.Int64
}

// statusOf returns how far a group's collectives have come.
func (r *Recorder) statusOf(g *group) Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := Status{LastCompleted: g.completed.Load()}
	s.LastStarted = max(g.started.Load(), s.LastCompleted)
	s.LastEnqueued = max(g.enqueued, s.LastStarted)
	return s
}

// AddGroup makes a group known and returns its number: groups count from 0. Ranks are those of the default group.
func (r *Recorder) AddGroup(name, desc string, ranks []int) int {
	if r == nil {
		return 0
	}
	g := &group{Group: Group{Name: name, Desc: desc, Ranks: append([]int{}, ranks...)}, enqueued: -1}
	g.started.Store(-1)
	g.completed.Store(-1)
	r.groups.mu.Lock()
	defer r.groups.mu.Unlock()
	g.number = r.groups.made
	r.groups.made++
	l := append(*r.groups.now.Load(), g) // past the end of what others read
	r.groups.now.Store(&l)
	return g.number
}

// CloseGroup says that no operation of a group will be added. The group stays in dumps at least as long as one of its
// operations does. Its number is not given again. An unknown number does nothing.
func (r *Recorder) CloseGroup(number int) {
	if r == nil {
		return
	}
	gs := &r.groups
	gs.mu.Lock()
	defer gs.mu.Unlock()
	g := r.group(number)
	if g == nil || g.closed {
		return
	}
	g.closed = true
	open := len(*gs.now.Load()) - gs.closed
	if gs.closed++; gs.closed-gs.needed > max(open, fewClosed) {
		r.forgetGroups()
	}
}

// forgetGroups forgets closed groups of which no operation is recorded. The caller holds the lock of groups.
func (r *Recorder) forgetGroups() {
	gs := &r.groups
	recorded := r.recordedGroups()
	var left groupList
	gs.closed = 0
	for _, g := range *gs.now.Load() {
		switch {
		case !g.closed:
		case recorded[g.number]:
			gs.closed++
		default:
			continue
		}
		left = append(left, g)
	}
	gs.needed = gs.closed
	gs.now.Store(&left)
}

// recordedGroups are the numbers of the groups of which the recorder holds operations.
func (r *Recorder) recordedGroups() map[int]bool {
	all := map[int]bool{}
	for i := range r.slots {
		s := &r.slots[i]
		r.mu.Lock()
		if s.id >= 0 {
			all[int(s.pg)] = true
		}
		r.mu.Unlock()
	}
	return all
}
