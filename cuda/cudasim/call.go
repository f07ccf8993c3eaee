package cudasim

import (
	"fmt"
	"time"

	"github.com/colligo-go/colligo/cuda"
)

// A call is one call of the table on its way, with the Sim locked.
type call struct {
	sim      *Sim
	process  *Process
	function string
	threadID uint64
	thread   *thread
	context  *context // current, nil if the call needs none
}

type need int

const (
	needsContext need = 1 << iota
	// breaksCapture marks calls that the driver refuses during a capture, if the caller's mode says so.
	breaksCapture
	// unlocked marks calls that do not take the process's lock.
	unlocked
	// stepless marks calls before which devices take no steps. Such a call neither looks at operations nor enqueues any, or it waits for
	// operations anyway. Devices take their steps before the next call then, or while the call waits.
	stepless
)

// enter starts a call; if the result is not Success the call is over.
func (p *Process) enter(function string, n need) (*call, cuda.Result) {
	s := p.sim
	s.lock()
	id := threadID() // asks the operating system: once for each call
	c := &call{sim: s, process: p, function: function, threadID: id, thread: p.thread(id)}
	s.lastCall = time.Now()
	r := c.admit(n)
	if r != cuda.Success {
		c.leave()
	}
	return c, r
}

func (c *call) admit(n need) cuda.Result {
	p, s := c.process, c.sim
	if p.dead {
		return deinitialized
	}
	if r := p.injected(c.function); r != cuda.Success {
		return r
	}
	if n&stepless == 0 {
		c.grant()
	}
	for n&unlocked == 0 && !c.mayEnter() {
		if !s.wait(p, c.function+" waits for another call that holds the process's lock", c.mayEnter) {
			return c.lost()
		}
	}
	if p.dead {
		return deinitialized
	}
	if n&needsContext != 0 {
		c.context = c.thread.context
		if c.context == nil || c.context.retains == 0 {
			return cuda.InvalidContext
		}
		if c.context.sticky != cuda.Success {
			return c.context.sticky
		}
	}
	if n&breaksCapture != 0 && c.capturedNear() {
		return cuda.StreamCaptureUnsupported
	}
	return cuda.Success
}

func (c *call) mayEnter() bool {
	free := func(holder uint64) bool { return holder == 0 || holder == c.threadID }
	x := c.thread.context
	return free(c.process.holder) && (x == nil || free(x.holder)) || c.process.dead
}

// grant lets the devices take some steps, or none, as the seed says.
func (c *call) grant() {
	s := c.sim
	if len(s.ready) == 0 || s.random.IntN(2) == 0 {
		return
	}
	target := s.steps + 1 + s.random.Uint64N(12)
	if s.random.IntN(8) == 0 {
		target = s.steps + 1<<40
	}
	s.wait(c.process, "", func() bool { return s.steps >= target || len(s.ready) == 0 })
}

func (c *call) leave() {
	s := c.sim
	if (s.deep || !s.running) && (len(s.ready) > 0 || len(s.watched) > 0) {
		s.kick()
	}
	s.unlock()
}

// lost is the result of a call whose wait was given up.
func (c *call) lost() cuda.Result {
	switch {
	case c.process.dead || c.sim.closed:
		return deinitialized
	case c.context != nil && c.context.sticky != cuda.Success:
		return c.context.sticky
	}
	return launchTimeout
}

// await blocks until the operations are done. The host has then seen them.
func (c *call) await(ops []*op, what string) cuda.Result {
	if r := c.until(ops, what); r != cuda.Success {
		return r
	}
	for _, o := range ops {
		c.process.host.join(o.out)
	}
	return cuda.Success
}

// until blocks until the operations are done, of which the host then knows nothing.
func (c *call) until(ops []*op, what string) cuda.Result {
	ok := c.sim.wait(c.process, c.function+" waits for "+what, func() bool {
		for _, o := range ops {
			if !o.done {
				return false
			}
		}
		return true
	})
	if !ok {
		return c.lost()
	}
	return cuda.Success
}

// idle blocks until everything that is enqueued in a context now is done.
func (c *call) idle(x *context) cuda.Result {
	if r := c.await(c.tails(x), x.idle()); r != cuda.Success {
		return r
	}
	c.process.host.merge(x.ended)
	return x.sticky
}

func (x *context) idle() string { return fmt.Sprintf("device %d to be idle", x.device) }

// tails returns what is last on each stream of a context.
func (c *call) tails(x *context) (tails []*op) {
	if x.legacy.tail != nil {
		tails = append(tails, x.legacy.tail)
	}
	for _, st := range sortedStreams(c.process) {
		if st.context == x && st.tail != nil {
			tails = append(tails, st.tail)
		}
	}
	return tails
}

// locked runs a call that blocks with the process locked, as the driver does when a queue is full and when it loads code.
func (c *call) locked(f func() cuda.Result) cuda.Result { return c.holding(&c.process.holder, f) }

// lockedIn runs a call that blocks with one context locked, as the driver does when it frees memory.
func (c *call) lockedIn(x *context, f func() cuda.Result) cuda.Result { return c.holding(&x.holder, f) }

func (c *call) holding(lock *uint64, f func() cuda.Result) cuda.Result {
	before := *lock
	*lock = c.threadID
	r := f()
	*lock = before
	if len(c.sim.waiters) > 0 { // one may wait for the lock
		c.sim.kick()
	}
	return r
}

func (p *Process) do(function string, n need, f func(*call) cuda.Result) cuda.Result {
	c, r := p.enter(function, n)
	if r != cuda.Success {
		return r
	}
	defer c.leave()
	return f(c)
}

func get[T any](p *Process, function string, n need, f func(*call) (T, cuda.Result)) (T, cuda.Result) {
	c, r := p.enter(function, n)
	if r != cuda.Success {
		var none T
		return none, r
	}
	defer c.leave()
	return f(c)
}
