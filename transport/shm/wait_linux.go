package shm

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// How long a rank that has nothing to do looks on before it sleeps. A sleep and its end cost some 5 µs, much more if the
// core has gone idle. So looking on for a few times as long costs at most a small factor of what it can save. Ranks that
// share cores give the core away between two looks, which lets a whole group go once around without a sleep.
//
// Looking on is wrong when the peer waits for this very core, as it does where other programs keep the cores busy. That
// shows in that it never helps: then it gets shorter, and every so often one idle period tries the full time.
const (
	spinTime    = 40 * time.Microsecond
	crowdedTime = 100 * time.Microsecond
	leastTime   = 2 * time.Microsecond
	tryEvery    = 16  // idle periods
	spinRounds  = 8   // rounds between two readings of the clock, where ranks do not share cores
	waitRounds  = 32  // the same for a caller that never calls Spin, whose rounds are short
	yieldRounds = 4   // rounds between two readings of the clock, where they do
	looks       = 16  // looks at the one frame that is awaited, before a round over all links; a pause follows each
	otherLooks  = 100 // the same for ranks that share cores, before one gives its core away: about as long as two switches
)

// patience is the state of one idle period, and what was learnt in earlier ones.
type patience struct {
	crowded bool // the group has more ranks than cores
	company bool // another rank is in this process
	naps    bool // sleeps begin with a nap, see door.sleep
	rounds  int  // between two readings of the clock

	last  int       // idle of the last call
	noted bool      // Spin has noted the round that Wait follows
	since time.Time // when the clock was first read in this period
	slept bool      // this period came to a sleep

	most, now time.Duration // how long to look on: at most, and as learnt
	periods   int           // so many had the clock read

	armed   bool   // the goroutine has said at its doorbell that it sleeps, and the links have been looked at since
	seen    uint32 // ring count when it said so
	sleeps  uint32 // counts sleeps; never 0 when armed
	scratch unix.Timespec
}

// Spin implements transport.Spinner. A rank with a core of its own looks at the frame for which it waits, if that is one. So it sees
// the frame as soon as it is there. A rank that shares its core does so if the frame can only come from another core, and else gives
// its core away. With other ranks in the process it leaves each round to Wait. The goroutines that run meanwhile can take long,
// so the clock is due after each round.
func (m *mesh) Spin(idle int) bool {
	p := &m.patience
	m.idles(idle)
	if p.noted = p.armed || p.company || idle%p.rounds == 0; p.noted {
		return false
	}
	switch one := m.misses == 1 && !m.closed.Load(); {
	case p.crowded:
		if !one || !m.awaitOther() {
			p.yields()
		}
	case one && idle > 1: // most frames come within the first pause
		m.missed.await(looks)
	default:
		pause()
	}
	m.missed, m.misses = nil, 0
	return true
}

// waiter has the state with which a goroutine waits for frames. A mesh has one waiter for the goroutine that uses the mesh, and a second one
// for the goroutine to which a lane is lent. The second waiter does not look for neighbours on its core.
type waiter struct {
	mesh     *mesh
	door     *door
	patience patience
}

// idles notes that a round has moved nothing. The first such round ends the idle period before.
func (w *waiter) idles(idle int) {
	p := &w.patience
	if idle <= p.last { // something has moved in between
		p.learn()
		if p.armed {
			w.disarm()
		}
	}
	p.last = idle
}

// Wait implements transport.Mesh: it spins, then arms the doorbell and returns, then sleeps.
func (m *mesh) Wait(idle int, until time.Time) {
	m.missed, m.misses = nil, 0
	m.waiter.Wait(idle, until)
}

// Wait implements transport.LaneWaiter. The mesh's own Wait is made of it.
func (w *waiter) Wait(idle int, until time.Time) {
	p := &w.patience
	if !p.noted {
		w.idles(idle)
	}
	due := p.noted || idle%waitRounds == 0
	p.noted = false
	if p.armed || !p.spin(due) {
		w.sleep(until)
	}
}

// coreEach reports whether there is a core for each rank, and a process.
func (p *patience) coreEach() bool { return !p.crowded && !p.company }

// share sets how long to look on by whether ranks share cores.
func (p *patience) share(crowded bool) {
	p.crowded, p.most, p.rounds = crowded, spinTime, spinRounds
	p.naps = !p.company && runtime.GOMAXPROCS(0) > 1
	if crowded {
		p.most, p.rounds = crowdedTime, yieldRounds
	}
	p.now = p.most
}

// learn ends an idle period. A try of the full time that ends without a sleep has it taken from then on.
func (p *patience) learn() {
	switch tried := p.tries(); {
	case p.since.IsZero(): // too short to tell
		return
	case tried && !p.slept:
		p.now = p.most
	case !p.slept:
		p.now = min(2*p.now, p.most)
	case !tried:
		p.now = max(p.now/2, leastTime)
	}
	p.since, p.slept = time.Time{}, false
	p.periods++
}

// yields gives the core away for a moment, or just this goroutine's thread where the peer is another goroutine. It reports
// false where neither can help.
func (p *patience) yields() bool {
	switch {
	case p.company:
		runtime.Gosched()
	case p.crowded:
		_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
	default:
		return false
	}
	return true
}

// spin passes a short moment and says whether it is too early to sleep. It reads the clock if that is due, and after each yield.
func (p *patience) spin(due bool) bool {
	if !p.yields() && !due {
		return true
	}
	now := time.Now()
	if p.since.IsZero() {
		p.since = now
		return true
	}
	return now.Sub(p.since) < p.limit()
}

// limit is how long this idle period looks on.
func (p *patience) limit() time.Duration {
	if p.tries() {
		return p.most
	}
	return p.now
}

// tries reports whether this idle period tries the full time.
func (p *patience) tries() bool { return p.periods%tryEvery == 0 }

// sleep arms the doorbell at the first call and sleeps at the second. Before the first a rank with a neighbour goes to another core.
func (w *waiter) sleep(until time.Time) {
	m := w.mesh
	m.life.RLock()
	defer m.life.RUnlock()
	if m.closed.Load() {
		return
	}
	p := &w.patience
	if !p.armed {
		if w == &m.waiter && p.coreEach() && m.part() {
			return
		}
		p.slept = true
		if p.sleeps++; p.sleeps == 0 {
			p.sleeps = 1
		}
		p.seen, p.armed = w.door.rings.Load(), true
		w.door.asleep.Store(p.sleeps)
		return
	}
	limit := time.Duration(0)
	if !until.IsZero() {
		if limit = time.Until(until); limit <= 0 {
			return
		}
	}
	w.door.sleep(p.seen, limit, p.naps, &p.scratch)
	w.door.asleep.Store(0)
	p.armed = false
}

// disarm takes back that this rank sleeps.
func (w *waiter) disarm() {
	w.mesh.life.RLock()
	defer w.mesh.life.RUnlock()
	w.patience.armed = false
	if !w.mesh.closed.Load() {
		w.door.asleep.Store(0)
	}
}

// Wake implements transport.Mesh.
func (m *mesh) Wake() {
	m.waiter.Wake()
	m.second.Wake()
}

// Wake implements transport.LaneWaiter.
func (w *waiter) Wake() {
	w.mesh.life.RLock()
	defer w.mesh.life.RUnlock()
	if !w.mesh.closed.Load() && w.door.asleep.Load() != 0 {
		w.door.ring()
	}
}
