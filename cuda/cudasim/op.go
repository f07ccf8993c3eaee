package cudasim

import (
	"fmt"
	"slices"
)

// A queue runs operations one after another: a stream, or one path through a graph.
type queue struct {
	ops   []*op // not done
	tail  *op   // enqueued last, done or not
	actor actor
	crews [3]crew // of its kernels: the first for kernels that overlap no other, the other two alternate for kernels launched ahead
	crew  int     // which of these two was used last
	early *stamp  // of the work that a kernel launched ahead now comes after, nil if it overlaps nothing
}

// A crew is the actors of a kernel.
type crew struct {
	lead   *actor // of those launched ahead; else the queue's
	blocks []*actor
}

// block returns the actor of a kernel's block.
//
//go:norace
func (s *Sim) block(c *crew, i int) *actor {
	for len(c.blocks) <= i {
		a := s.newActor()
		c.blocks = append(c.blocks, &a)
	}
	return c.blocks[i]
}

type status int

const (
	finished status = iota
	waiting         // for memory that body watches; body is called again
	going           // body has started work that will call complete
)

// A body does an operation's work. It may be run many times, for different operations.
type body func(*Sim, *op) status

// An op is one operation in a queue.
type op struct {
	*origin
	process *Process
	context *context
	queue   *queue
	body    body
	in      knowledge // besides the queue's
	early   *stamp    // the queue's when the operation began
	after   []*op     // must be done before
	pending int       // of after, not done
	next    []*op     // have this in after
	queued  bool      // on the ready list
	started bool
	done    bool
	parked  uint64
	out     *stamp              // when done
	time    uint64              // when done, in steps
	then    func()              // when done
	stop    func()              // drops the work that body has started
	inside  func() string       // for the report: the parts of a graph that wait
	waits   func() string       // for the report: the reason why a waiting op waits
	tasks   map[*blockTask]bool // of a kernel, alive
}

// An accessor is the actor and the operation that touch memory.
type accessor struct {
	*actor
	origin *origin
	block  int
}

//go:norace
func (o *op) accessor() accessor { return accessor{&o.queue.actor, o.origin, -1} }

//go:norace
func (o *op) parking() *uint64 { return &o.parked }

//go:norace
func (o *op) free() bool {
	if o.queued || o.done {
		return false
	}
	o.queued = true
	return true
}

//go:norace
func (o *op) anywhere() bool { return true }

// follow makes o wait for before. Both o's queue and its list are still the caller's.
//
//go:norace
func (o *op) follow(before *op) {
	switch {
	case before == nil:
	case before.done:
		join(&o.in, before.out)
	case !slices.Contains(o.after, before):
		o.after = append(o.after, before)
		o.pending++
		before.next = append(before.next, o)
	}
}

//go:norace
func join(k *knowledge, s *stamp) { k.join(s) }

// push puts o at the end of a queue.
func (s *Sim) push(q *queue, o *op) {
	o.queue = q
	q.ops = append(q.ops, o)
	q.tail = o
	s.enqueued++
	if s.progress.Before(s.lastCall) { // the executor, which may be asleep, need not find out
		s.progress = s.lastCall
	}
	s.offer(o)
}

// offer schedules o if it may begin.
//
//go:norace
func (s *Sim) offer(o *op) {
	if !o.done && o.queue.ops[0] == o && o.pending == 0 && !o.started {
		s.schedule(o)
	}
}

//go:norace
func (o *op) run(s *Sim) {
	o.queued = false
	if o.done {
		return
	}
	if !o.started {
		o.started = true
		o.queue.actor.merge(o.in)
		o.early, o.queue.early = o.queue.early, nil
		o.after = nil
	}
	if o.body(s, o) == finished && !o.done {
		s.complete(o)
	}
}

//go:norace
func (s *Sim) complete(o *op) {
	q := o.queue
	s.enqueued--
	o.done, o.parked, o.time = true, 0, s.steps
	o.out = q.actor.release()
	o.in, o.early = knowledge{}, nil
	o.body, o.after, o.stop, o.waits, o.inside = nil, nil, nil, nil, nil
	q.ops[0] = nil
	q.ops = q.ops[1:]
	for _, n := range o.next {
		n.in.join(o.out)
		n.pending--
		s.offer(n)
	}
	o.next = nil
	if len(q.ops) > 0 {
		s.offer(q.ops[0])
	}
	if o.then != nil {
		o.then()
	}
	s.moved()
}

// abandon drops everything in a queue. Operations and calls that wait for it go on.
func (s *Sim) abandon(q *queue) {
	for len(q.ops) > 0 {
		o := q.ops[0]
		for _, st := range o.sortedTasks() {
			st.doom(s)
		}
		if o.stop != nil {
			o.stop()
		}
		if len(q.ops) > 0 && q.ops[0] == o {
			s.complete(o)
		}
	}
}

// crash ends an operation with a failed access. Its context is useless from now on.
func (s *Sim) crash(o *op, r resultError) {
	s.fault(fmt.Sprintf("%v: %s, enqueued at\n%s", o.origin, r.why, stack(o.pcs, "    ")))
	o.context.fail(r.code)
}
