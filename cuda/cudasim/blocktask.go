package cudasim

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"runtime/debug"
	"slices"
)

// A blockTask is the work of a coroutine for one block of a kernel, or for its whole grid.
type blockTask struct {
	sim      *Sim
	op       *op
	number   uint64 // in the order in which they were made
	actor    *actor
	block    int
	main     func()
	parent   *blockTask
	children int // that still run
	threads  int // that the device has room for, of a block
	resident bool

	coroutine *coroutine // since it has begun

	queued  bool
	ended   bool
	doomed  bool // to be unwound
	parked  uint64
	looked  []looked // memory polled since the last Yield
	paused  bool     // since the last Yield, so looked is out of date
	failure any
	trace   []byte
}

// looked is memory that a coroutine has polled, with the words it found there if the memory is the host's.
type looked struct {
	memory *memory
	lo, hi int
	before []uint32
}

// unwound is the panic that unwinds a doomed block task.
type unwound struct{}

//go:norace
func (s *Sim) newTask(o *op, a *actor, block int, main func()) *blockTask {
	s.lastTask++
	st := &blockTask{sim: s, op: o, number: s.lastTask, actor: a, block: block, main: main}
	s.tasks[st] = true
	if o.tasks == nil {
		o.tasks = map[*blockTask]bool{}
	}
	o.tasks[st] = true
	return st
}

// sortedTasks returns the block tasks of a kernel that are alive, in the order of the blocks.
func (o *op) sortedTasks() []*blockTask {
	return slices.SortedFunc(maps.Keys(o.tasks), func(a, b *blockTask) int { return cmp.Compare(a.number, b.number) })
}

//go:norace
func (st *blockTask) parking() *uint64 { return &st.parked }

//go:norace
func (st *blockTask) free() bool {
	if st.queued || st.ended {
		return false
	}
	st.queued = true
	return true
}

// anywhere is false. The executor makes all coroutines, and Go lets no goroutine that is locked to a thread resume them.
//
//go:norace
func (st *blockTask) anywhere() bool { return false }

//go:norace
func (st *blockTask) run(s *Sim) {
	st.queued = false
	if st.ended {
		return
	}
	if st.coroutine == nil && !st.doomed {
		st.coroutine = s.coroutine(st.body)
	}
	if c := st.coroutine; c != nil {
		c.next()
		if c.main != nil { // it has paused
			return
		}
		s.resting = append(s.resting, c)
	}
	st.end(s)
}

// A coroutine runs one block task after another until the Sim is closed. Go's race detector keeps memory for every coroutine that ever
// began, for iter.Pull does not tell it of their ends.
type coroutine struct {
	main  func() // the block task that it runs, nil while it rests
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool
}

// coroutine returns a coroutine that rests, or a new one, to run main.
//
//go:norace
func (s *Sim) coroutine(main func()) *coroutine {
	if last := len(s.resting) - 1; last >= 0 {
		c := s.resting[last]
		s.resting = s.resting[:last]
		c.main = main
		return c
	}
	c := &coroutine{main: main}
	c.next, c.stop = iter.Pull(c.loop)
	return c
}

//go:norace
func (c *coroutine) loop(yield func(struct{}) bool) {
	c.yield = yield
	for more := true; more; more = yield(struct{}{}) {
		c.main()
		c.main = nil
	}
}

// body runs main and keeps the panic that ended it.
//
//go:norace
func (st *blockTask) body() {
	defer func() {
		switch v := recover().(type) {
		case nil, unwound:
		case resultError:
			st.failure = v
		default:
			st.failure, st.trace = v, debug.Stack()
		}
	}()
	st.main()
}

//go:norace
func (st *blockTask) end(s *Sim) {
	st.ended = true
	delete(s.tasks, st)
	delete(st.op.tasks, st)
	if st.resident {
		d := s.devices[st.op.device]
		d.threads -= st.threads
		s.admit(d)
	}
	switch v := st.failure.(type) {
	case nil:
	case resultError:
		s.crash(st.op, v)
		return
	default:
		s.crash(st.op, resultError{launchFailed, fmt.Sprintf("the model kernel panicked: %v\n%s", v, st.trace)})
		return
	}
	switch {
	case st.doomed:
	case st.parent == nil:
		a := &st.op.queue.actor
		if st.actor != a {
			a.gather(st.actor)
		}
		a.fence()
		s.complete(st.op)
	default:
		st.parent.actor.gather(st.actor)
		if st.parent.children--; st.parent.children == 0 {
			s.schedule(st.parent)
		}
	}
}

// doom makes the executor unwind the block task.
func (st *blockTask) doom(s *Sim) {
	st.doomed = true
	s.schedule(st)
}

// pause lets others run. The caller has seen to it that the block task is scheduled again.
//
//go:norace
func (st *blockTask) pause() {
	st.paused = true
	if !st.doomed {
		st.coroutine.yield(struct{}{})
	}
	if st.doomed {
		panic(unwound{})
	}
}

// breathe pauses now and then, so that seeds differ.
//
//go:norace
func (st *blockTask) breathe() {
	if st.sim.random.IntN(4) == 0 {
		st.sim.schedule(st)
		st.pause()
	}
}

// Yield lets others run. A block that has polled flags or lines since its last Yield goes on when a polled word or host memory has
// changed. Any other block goes on when the executor picks it.
//
//go:norace
func (b *Block) Yield() {
	st := b.task
	if st.paused || len(st.looked) == 0 {
		st.sim.schedule(st)
	} else {
		st.sim.park(st)
		for _, l := range st.looked {
			st.sim.watch(l.memory, watcher{lo: l.lo, hi: l.hi, task: st, before: l.before})
		}
	}
	st.pause()
	st.looked, st.paused = st.looked[:0], false
}

// Poll yields until the condition holds. The condition polls with LoadAcquire32, LoadVolatile32, LoadLL, LoadLL128 or LoadSentinel.
//
//go:norace
func (b *Block) Poll(condition func() bool) {
	for !condition() {
		b.Yield()
	}
}

//go:norace
func (st *blockTask) look(m *memory, lo, hi int) {
	l := looked{memory: m, lo: lo, hi: hi}
	if m.host() {
		l.before = m.words(lo, hi)
	}
	st.looked = append(st.looked, l)
}

// saw notes the value that the last look at a word has found, for the host can have stored since.
//
//go:norace
func (st *blockTask) saw(v uint32) {
	if l := &st.looked[len(st.looked)-1]; l.before != nil {
		l.before[0] = v
	}
}
