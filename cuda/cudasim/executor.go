package cudasim

import (
	"slices"
	"time"
)

// hostPoll is how often words of host memory are looked at that kernels and streams wait for: the host changes them
// without a call.
const hostPoll = 500 * time.Microsecond

// A task is an operation that may begin, or a coroutine that may go on.
type task interface {
	run(*Sim)
	// parking is the number of the present wait for memory to change, 0 for none.
	parking() *uint64
	// free reports whether the task may be put on the ready list, and marks it.
	free() bool
	// anywhere reports whether any goroutine may run the task.
	anywhere() bool
}

// An executor runs tasks.
type executor struct {
	ready   []task
	chosen  int // index in ready of the task whose step is next, -1 while none is chosen
	tasks   map[*blockTask]bool
	resting []*coroutine
	waiters []*waiter
	watched []*memory // of the host, that tasks wait for

	enqueued int // operations in queues, not done
	steps    uint64
	changes  uint64 // of memory by operations and HostWrite, but for copies of a few bytes that were the same
	lastPark uint64
	lastTask uint64
	moves    bool // something happened since progress
	progress time.Time
	lastCall time.Time
	unbidden bool // run without a call that waits
	deep     bool // asleep until kicked, or for so long that whoever has work for it kicks it
	running  bool
	closed   bool
	kicks    chan struct{}
	exited   chan struct{}
}

// A waiter is a call that blocks.
type waiter struct {
	process *Process
	what    string
	pcs     []uintptr
	until   func() bool
	done    chan struct{}
	failed  bool
}

func (e *executor) init() {
	e.chosen = -1
	e.tasks = map[*blockTask]bool{}
	e.kicks = make(chan struct{}, 1)
	e.exited = make(chan struct{})
}

// moved notes that something has happened, so there is no deadlock.
//
//go:norace
func (e *executor) moved() { e.moves = true }

// kick makes the executor look.
func (s *Sim) kick() {
	if !s.running && !s.closed {
		s.running = true
		go s.execute()
	}
	s.deep = false
	select {
	case s.kicks <- struct{}{}:
	default:
	}
}

// wait lets the devices take steps until the condition holds. It returns false if it never will: a deadlock was
// found, the process was killed, or the Sim was closed.
func (s *Sim) wait(p *Process, what string, until func() bool) bool {
	if s.stepHere(p, until) {
		return true
	}
	if s.closed || p.dead {
		return false
	}
	w := &waiter{process: p, what: what, until: until, done: make(chan struct{})}
	if what != "" { // else it ends when nothing is ready, and stands in no report
		w.pcs = callStack()
	}
	s.waiters = append(s.waiters, w)
	s.kick()
	s.unlock()
	<-w.done
	s.lock()
	return !w.failed
}

// stepHere takes steps on the caller's goroutine until the condition holds, which it reports, or the next step is a kernel's. The steps are
// the same as the executor's. A caller is often locked to a thread, and each wait for the executor is then two switches of threads. They take
// far longer than most steps. Where operations were given up meanwhile, their context has the error that the call returns.
func (s *Sim) stepHere(p *Process, until func() bool) bool {
	for !until() {
		if s.closed || p.dead || len(s.ready) == 0 || !s.choose().anywhere() {
			return false
		}
		s.advance()
		if len(s.waiters) > 0 { // the step may have met the condition of another call
			s.settle()
			s.kick()
		}
	}
	return true
}

// Close ends the executor and what still runs. Calls that wait fail. Of the processes nothing is kept but what Races, Faults and
// Leaks say.
func (s *Sim) Close() {
	s.lock()
	again := s.closed
	s.closed = true
	running := s.running
	if running {
		s.kick()
	}
	s.unlock()
	if running {
		<-s.exited
	}
	if !again {
		s.forget()
	}
}

// ended reports whether nothing runs on the devices any more, nor will.
func (s *Sim) ended() bool {
	if !s.closed || !s.running {
		return s.closed
	}
	select {
	case <-s.exited:
		return true
	default:
		return false
	}
}

// forget gives back the devices' memory, when nothing runs on them any more, and lets go of the processes. Else all of it
// would stay until the last test is over, because package testing keeps what a test's cleanup has named.
func (s *Sim) forget() {
	leaks := s.Leaks()
	s.lock()
	defer s.unlock()
	for _, d := range s.taken {
		spare.give(d)
	}
	s.taken, s.leaks, s.processes, s.ready, s.watched = nil, leaks, nil, nil, nil
	s.chosen = -1
	s.touching = touch{sim: s}
	for _, d := range s.devices {
		d.waiting = nil
	}
	clear(s.exports)
	clear(s.kernels)
}

func (s *Sim) execute() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		s.lock()
		sleep := s.work()
		if s.closed {
			s.stopAll()
			s.unlock()
			close(s.exited)
			return
		}
		s.deep = sleep < 0 || sleep > max(s.config.Quiet, hostPoll)
		s.unlock()
		if sleep < 0 {
			<-s.kicks
			continue
		}
		timer.Reset(sleep)
		select {
		case <-s.kicks:
		case <-timer.C:
		}
	}
}

// work takes steps while a call waits for them, and returns how long to sleep, negative for until a kick.
func (s *Sim) work() time.Duration {
	for !s.closed {
		s.settle()
		if len(s.ready) == 0 || len(s.waiters) == 0 && !s.unbidden {
			if sleep := s.rest(); sleep != 0 {
				return sleep
			}
			continue
		}
		s.advance()
	}
	return 0
}

// advance takes a step, and lets others have the lock.
func (s *Sim) advance() {
	s.step()
	if s.steps%stepsPerLook == 0 {
		s.lookForProgress(time.Now())
	}
	s.unlock()
	s.lock()
}

// stepsPerLook is after how many steps the executor looks whether they are progress: tasks may yield for ever.
const stepsPerLook = 1 << 12

// unaskedPatience is for how many times Config.Patience operations may stand still that no call waits for. The host may ask again
// and again how far they are, or look at its memory. It may also be about to make the call that lets them go on.
const unaskedPatience = 4

// lookForProgress says how long it may still take until something moves, after it has found a deadlock if it has taken too
// long. It is negative if nothing is enqueued and no call waits.
func (s *Sim) lookForProgress(now time.Time) (left time.Duration) {
	if s.moves {
		s.progress, s.moves = now, false
	}
	switch {
	case len(s.waiters) > 0 && len(s.ready) == 0:
		left = s.config.Patience
	case s.enqueued > 0:
		left = unaskedPatience * s.config.Patience
	default:
		return -1
	}
	if left -= now.Sub(s.progress); left > 0 {
		return left
	}
	s.deadlock(now.Sub(s.progress))
	return 0
}

// choose returns the task whose step is next.
//
//go:norace
func (s *Sim) choose() task {
	if s.chosen < 0 {
		s.chosen = s.random.IntN(len(s.ready))
	}
	return s.ready[s.chosen]
}

//go:norace
func (s *Sim) step() {
	t, last := s.choose(), len(s.ready)-1
	s.ready[s.chosen], s.ready[last] = s.ready[last], nil
	s.ready, s.chosen = s.ready[:last], -1
	s.steps++
	t.run(s)
}

// settle lets the calls go on whose condition holds.
func (s *Sim) settle() {
	s.waiters = slices.DeleteFunc(s.waiters, func(w *waiter) bool {
		if !w.failed && !w.until() {
			return false
		}
		if w.what != "" { // else it is a call that looks, or enqueues
			s.moved()
		}
		close(w.done)
		return true
	})
}

// rest says how long there is nothing to do, after it has looked for what the host has changed, for silence and for
// deadlock. 0 is to look again.
func (s *Sim) rest() time.Duration {
	now := time.Now()
	if len(s.ready) == 0 {
		s.unbidden = false
		if s.recheck() {
			s.moved()
			s.unbidden = s.config.Quiet > 0
			return 0
		}
	}
	sleep := time.Duration(-1)
	switch {
	case len(s.ready) == 0 || len(s.waiters) > 0:
		if sleep = s.lookForProgress(now); sleep == 0 {
			return 0
		}
	case s.config.Quiet > 0:
		sleep = s.config.Quiet - now.Sub(s.lastCall)
		if sleep <= 0 {
			s.unbidden = true
			return 0
		}
	}
	if len(s.watched) > 0 && (sleep < 0 || sleep > hostPoll) && (s.config.Quiet > 0 || len(s.waiters) > 0) {
		sleep = hostPoll
	}
	return sleep
}

// schedule puts a task on the ready list.
//
//go:norace
func (s *Sim) schedule(t task) {
	*t.parking() = 0
	if t.free() {
		s.ready = append(s.ready, t)
	}
}

// A watcher is a task that waits for bytes to change.
type watcher struct {
	lo, hi int
	task   task
	park   uint64
	before []uint32 // of host memory: its words when the wait began
}

//go:norace
func (w *watcher) stale() bool { return *w.task.parking() != w.park }

//go:norace
func stale(w watcher) bool { return w.stale() }

// park gives the task a new wait, for which watch is then called.
//
//go:norace
func (s *Sim) park(t task) {
	s.lastPark++
	*t.parking() = s.lastPark
}

//go:norace
func (s *Sim) watch(m *memory, w watcher) {
	w.park = *w.task.parking()
	if len(m.watchers) == cap(m.watchers) {
		m.watchers = slices.DeleteFunc(m.watchers, stale)
	}
	m.watchers = append(m.watchers, w)
	if m.host() && !slices.Contains(s.watched, m) {
		s.watched = append(s.watched, m)
	}
}

// wake schedules the tasks that wait for one of the bytes from lo to hi.
//
//go:norace
func (s *Sim) wake(m *memory, lo, hi int) {
	if len(m.watchers) == 0 {
		return
	}
	left := m.watchers[:0]
	for i := range m.watchers {
		switch w := &m.watchers[i]; {
		case w.stale():
		case w.hi <= lo || hi <= w.lo:
			left = append(left, *w)
		default:
			s.schedule(w.task)
		}
	}
	clear(m.watchers[len(left):])
	m.watchers = left
}

// recheck wakes the tasks that wait for host memory that has changed.
func (s *Sim) recheck() bool {
	woken := false
	s.watched = slices.DeleteFunc(s.watched, func(m *memory) bool {
		m.watchers = slices.DeleteFunc(m.watchers, func(w watcher) bool {
			if w.stale() {
				return true
			}
			if slices.Equal(w.before, m.words(w.lo, w.hi)) {
				return false
			}
			s.schedule(w.task)
			woken = true
			return true
		})
		return len(m.watchers) == 0
	})
	return woken
}

func (m *memory) words(lo, hi int) []uint32 {
	w := make([]uint32, 0, (hi-lo)/4)
	for ; lo+4 <= hi; lo += 4 {
		w = append(w, m.get(lo))
	}
	return w
}

// stopAll ends coroutines and fails calls.
func (s *Sim) stopAll() {
	for st := range s.tasks {
		st.doomed = true
		st.run(s)
	}
	for _, c := range s.resting {
		c.stop()
	}
	s.resting = nil
	for _, w := range s.waiters {
		w.failed = true
		close(w.done)
	}
	s.waiters = nil
}
