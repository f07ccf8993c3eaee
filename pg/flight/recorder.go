package flight

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/internal/callers"
	"github.com/colligo-go/colligo/internal/prefetch"
)

// The operations and callers that a recorder usually keeps. An operation costs about 200 ns, and 3 more for each caller (BenchmarkRecord).
const (
	DefaultCapacity = 2000 // operations, as in PyTorch
	DefaultDepth    = 8    // callers
)

// ID names a recorded operation; it is negative if nothing was recorded.
type ID int64

// Op is what is known of an operation when it is called. Nothing of it is kept.
type Op struct {
	PG                int
	Seq, P2PSeq, OpID uint64
	Name              string // a constant, or made once
	P2P               bool
	Tag               int32 // of a send or receive, if it is Tagged
	Tagged            bool
	In, Out           []colligo.Tensor
	Timeout           time.Duration
	Created           int64 // in nanoseconds since 1970; 0: now
	Started           bool  // it is on its way as it is called: BeginAt is not needed
}

// Recorder keeps the last operations of all groups of a process. Its methods may be called from any goroutine, also on nil, which
// records nothing.
//
// An operation has the slot of its number, modulo the capacity. A dump takes the lock anew for each slot. So it stops callers for no
// longer than it takes to copy one slot, and to allocate the copy.
type Recorder struct {
	slots  []slot
	ends   []end     // of the operations in the slots
	calls  []uintptr // room for as many callers for each slot
	room   int
	depth  int
	groups groups
	fresh  atomic.Pointer[func()]

	_    [64]byte   // callers write what stands below, the watchdog of devices reads what stands above
	mu   sync.Mutex // guards the slots, and what follows
	next int64      // the next operation's number
	at   int        // its slot
}

// slot is one operation. Values that most calls write lie in its first two lines of memory. For there are so many slots that
// each is far from the CPU when its turn comes.
type slot struct {
	id                int64 // -1 before the first use
	seq, p2pSeq, opID uint64
	name              string
	created           int64
	timeout           time.Duration
	pg, skip          int32
	callers           uint8 // how many are in the recorder's memory for the slot, with those to leave out
	ins, tensors      uint8 // how many of types and dims are of inputs, and of any
	begun             bool  // it was started as it was called
	p2p, large        bool  // what does not fit into types, dims and sizes is in lists
	tagged            bool
	types             [fewTensors]colligo.DType // of inputs and outputs
	dims              [fewTensors]uint8         // how many sizes belong to each
	lists             *lists                    // kept when the slot is used again
	sizes             [fewSizes]int64
	tag               int32
	_                 [24]byte // a whole number of lines
}

// Values that most operations need.
const fewTensors, fewSizes = 4, 8

// lists are a slot's types, dims and sizes if there are more.
type lists struct {
	ins   int
	types []colligo.DType
	dims  []int
	sizes []int64
}

// end is what became of the operation of a slot. It lies apart from the slot. For the end of an operation on a device is
// written by another CPU than the one that called it. Memory that changes hands costs the next call that needs it.
type end struct {
	mu                 sync.Mutex
	id                 int64 // of the operation that the rest is about; of another one than the slot's it means nothing
	started, completed int64
	took               time.Duration
	retired            bool
}

// of makes e that of an operation. It reports false for one whose slot, and end, a later one has taken. The caller holds e.mu.
func (e *end) of(id int64) bool {
	if e.id < id {
		e.id, e.started, e.completed, e.took, e.retired = id, 0, 0, -1, false
	}
	return e.id == id
}

// New returns a recorder of the last capacity operations, each with at most depth callers, of which 245 are kept. For a
// capacity of 0 it returns nil.
func New(capacity, depth int) *Recorder {
	if capacity <= 0 {
		return nil
	}
	depth = max(depth, 0)
	r := &Recorder{slots: make([]slot, capacity), ends: make([]end, capacity), depth: depth}
	r.groups.now.Store(new(groupList))
	if depth > 0 {
		r.room = min(depth+leaveOut, math.MaxUint8)
	}
	r.calls = make([]uintptr, capacity*r.room)
	for i := range r.slots {
		r.slots[i].id, r.ends[i].id = -1, -1
	}
	return r
}

// callersOf is the room for callers of slot i.
func (r *Recorder) callersOf(i int) []uintptr { return r.calls[i*r.room : (i+1)*r.room] }

// Add records a call that waits for its turn. skip is the number of callers, without Add itself, to leave out of the stack.
func (r *Recorder) Add(o *Op, skip int) ID {
	if r == nil {
		return -1
	}
	r.mu.Lock()
	id, i := r.next, r.at
	s := &r.slots[i]
	s.set(id, o)
	s.callers, s.skip = uint8(callers.Fill(r.callersOf(i))), int32(skip)
	r.added(o)
	if r.next, r.at = id+1, i+1; r.at == len(r.slots) {
		r.at = 0
	}
	prefetch.Next(&r.slots[r.at])
	r.mu.Unlock()
	return ID(id)
}

// added notes how far an operation's group has come. One that is Started is counted as such only, for it was enqueued, too. The caller
// holds r.mu.
func (r *Recorder) added(o *Op) {
	g := r.group(o.PG)
	switch {
	case g == nil || o.P2P:
	case o.Started:
		raise(&g.started, o.Seq)
	default:
		g.enqueued = max(g.enqueued, int64(o.Seq))
	}
}

// set makes a slot that of an operation, all but its callers.
func (s *slot) set(id int64, o *Op) {
	s.id, s.pg, s.seq, s.p2pSeq, s.opID = id, int32(o.PG), o.Seq, o.P2PSeq, o.OpID
	s.name, s.p2p, s.timeout, s.created, s.begun = o.Name, o.P2P, o.Timeout, o.Created, o.Started
	if s.created == 0 {
		s.created = nanos(time.Time{})
	}
	if s.tagged = o.Tagged; s.tagged { // only then, for the tag lies far behind
		s.tag = o.Tag
	}
	if s.large = !s.shapes(o.In, o.Out); s.large {
		s.list(o.In, o.Out)
	}
}

// shapes sets the types and sizes of tensors. It reports false if they are too many.
func (s *slot) shapes(in, out []colligo.Tensor) bool {
	if len(in)+len(out) > fewTensors {
		return false
	}
	s.ins, s.tensors = uint8(len(in)), 0
	sizes := s.shape(0, in)
	if sizes == 1 && len(in) == 1 && len(out) == 1 && in[0] == out[0] { // as most are
		s.types[1], s.dims[1], s.sizes[1], s.tensors = s.types[0], s.dims[0], s.sizes[0], 2
		return true
	}
	return sizes >= 0 && s.shape(sizes, out) >= 0
}

// shape adds tensors behind the first sizes. It returns how many sizes there are then, negative if they are too many.
func (s *slot) shape(sizes int, ts []colligo.Tensor) int {
	for i := range ts {
		shape := ts[i].Shape()
		if sizes+len(shape) > fewSizes {
			return -1
		}
		s.types[s.tensors], s.dims[s.tensors] = ts[i].DType(), uint8(len(shape))
		for _, d := range shape {
			s.sizes[sizes] = int64(d)
			sizes++
		}
		s.tensors++
	}
	return sizes
}

// list sets the types and sizes of any number of tensors.
func (s *slot) list(in, out []colligo.Tensor) {
	if s.lists == nil {
		s.lists = &lists{}
	}
	l := s.lists
	l.ins, l.types, l.dims, l.sizes = len(in), l.types[:0], l.dims[:0], l.sizes[:0]
	for _, ts := range [2][]colligo.Tensor{in, out} {
		for i := range ts {
			shape := ts[i].Shape()
			l.types, l.dims = append(l.types, ts[i].DType()), append(l.dims, len(shape))
			for _, n := range shape {
				l.sizes = append(l.sizes, int64(n))
			}
		}
	}
}

// all returns what shapes or list has set.
func (s *slot) all() *lists {
	if s.large {
		return s.lists
	}
	l := &lists{ins: int(s.ins), types: s.types[:s.tensors], sizes: s.sizes[:]}
	for _, n := range s.dims[:s.tensors] {
		l.dims = append(l.dims, int(n))
	}
	return l
}

// raise sets a number unless it is higher already.
func raise(n *atomic.Int64, to uint64) {
	for old := n.Load(); old < int64(to) && !n.CompareAndSwap(old, int64(to)); {
		old = n.Load()
	}
}

// locked returns the slot of an operation, nil if another has taken it. The caller unlocks r.mu if it gets one.
func (r *Recorder) locked(id ID) *slot {
	if r == nil || id < 0 {
		return nil
	}
	s := &r.slots[int64(id)%int64(len(r.slots))]
	r.mu.Lock()
	if s.id != int64(id) {
		r.mu.Unlock()
		return nil
	}
	return s
}

// nanos is a time since 1970, that of now for the zero time.
func nanos(t time.Time) int64 {
	if t.IsZero() {
		t = time.Now()
	}
	return t.UnixNano()
}

// Start records that an operation is on its way.
func (r *Recorder) Start(id ID) { r.StartAt(id, time.Time{}) }

// StartAt notes that an operation was started, and when; a zero time is now. Later ones change nothing.
func (r *Recorder) StartAt(id ID, at time.Time) {
	if pg, seq, ok := r.placeOf(id); ok {
		r.BeginAt(pg, id, seq, nanos(at))
	}
}

// placeOf returns an operation's group, and its number among the collectives of the group, 0 for a send or receive.
func (r *Recorder) placeOf(id ID) (pg int, seq uint64, ok bool) {
	s := r.locked(id)
	if s == nil {
		return 0, 0, false
	}
	if pg = int(s.pg); !s.p2p {
		seq = s.seq
	}
	r.mu.Unlock()
	return pg, seq, true
}

// BeginAt notes that an operation of a group was started, and when, in nanoseconds since 1970. The caller knows its number among the
// collectives, which is 0 for a send or receive. Like EndAt it looks at nothing that Add writes, and so takes one lock.
func (r *Recorder) BeginAt(pg int, id ID, seq uint64, at int64) {
	if r == nil || id < 0 {
		return
	}
	e := r.endOf(id)
	e.mu.Lock()
	if e.of(int64(id)) && e.started == 0 {
		e.started = at
	}
	e.mu.Unlock()
	if g := r.group(pg); g != nil && seq > 0 {
		raise(&g.started, seq)
	}
}

// Complete records that an operation is done; took is negative if it was not measured.
func (r *Recorder) Complete(id ID, took time.Duration) { r.CompleteAt(id, took, time.Time{}) }

// CompleteAt notes that an operation was completed, and when; a zero time is now.
func (r *Recorder) CompleteAt(id ID, took time.Duration, at time.Time) {
	if pg, seq, ok := r.placeOf(id); ok {
		r.EndAt(pg, id, seq, took, nanos(at))
	}
}

// EndAt notes that an operation was completed, and when, in nanoseconds since 1970. The caller knows its group and number, as for BeginAt.
func (r *Recorder) EndAt(pg int, id ID, seq uint64, took time.Duration, at int64) {
	if r == nil || id < 0 {
		return
	}
	r.endOf(id).complete(id, took, at)
	if g := r.group(pg); g != nil && seq > 0 {
		raise(&g.started, seq)
		raise(&g.completed, seq)
	}
}

// Retire records that an operation will not be done.
func (r *Recorder) Retire(id ID) {
	if s := r.locked(id); s != nil {
		r.endOf(id).retire(id)
		r.mu.Unlock()
	}
}

// endOf returns where the end of a recorded operation is noted.
func (r *Recorder) endOf(id ID) *end { return &r.ends[int64(id)%int64(len(r.ends))] }

func (e *end) complete(id ID, took time.Duration, at int64) {
	e.mu.Lock()
	if e.of(int64(id)) {
		e.completed, e.took, e.retired = at, took, true
	}
	e.mu.Unlock()
}

func (e *end) retire(id ID) {
	e.mu.Lock()
	if e.of(int64(id)) {
		e.retired = true
	}
	e.mu.Unlock()
}

// Done is an operation that is over.
type Done struct {
	ID     ID
	Seq    uint64 // among its group's collectives; 0 for sends and receives
	Failed bool   // it is retired only
}

// Conclude completes operations of one group that Add has recorded, whose durations were not measured. It looks at nothing
// that Add writes, so that it does not stand in the way of the goroutines that call the next ones.
func (r *Recorder) Conclude(pg int, all []Done, at time.Time) {
	if r == nil {
		return
	}
	ns, last := nanos(at), uint64(0)
	for i := range all {
		switch d := &all[i]; {
		case d.ID < 0:
		case d.Failed:
			r.endOf(d.ID).retire(d.ID)
		default:
			r.endOf(d.ID).complete(d.ID, -1, ns)
			last = max(last, d.Seq)
		}
	}
	if g := r.group(pg); g != nil && last > 0 {
		raise(&g.started, last)
		raise(&g.completed, last)
	}
}

// find returns a group by its number, nil for an unknown one.
func (l groupList) find(number int) *group {
	if uint(number) < uint(len(l)) && l[number].number == number { // no group before it is forgotten
		return l[number]
	}
	return l.search(number)
}

// search finds a group behind some that are forgotten.
func (l groupList) search(number int) *group {
	i, ok := slices.BinarySearchFunc(l, number, func(g *group, n int) int { return cmp.Compare(g.number, n) })
	if !ok {
		return nil
	}
	return l[i]
}

// group returns a group by its number, nil for an unknown one.
func (r *Recorder) group(number int) *group { return r.groups.now.Load().find(number) }
