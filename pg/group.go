package pg

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/backend"
	"github.com/colligo-go/colligo/plan"
	"github.com/colligo-go/colligo/store"
	"github.com/colligo-go/colligo/transport"
)

// p2pLane is the lane of send and recv; collectives use the lanes after it.
const p2pLane = 0

// ErrNotMember is the error of every operation on the handle that NewGroup gives to a rank outside the group.
var ErrNotMember = errors.New("this rank is not a member of the group")

// Group is a set of ranks that run collectives together. All ranks must call the same collectives in the same order.
// Methods may be called from several goroutines; operations take their sequence numbers in the order of the calls.
// The first error of a group ends it: every pending and later operation fails with that error as its cause.
type Group struct {
	name       string
	rank, size int
	ranks      []int // ranks of the default group, by rank of this group
	timeout    time.Duration
	log        *slog.Logger
	config     Config
	store      store.Store // prefixed with the group's name
	world      *world      // shared by all groups of one Init
	mesh       transport.Mesh
	links      []transport.Link // by peer, nil for the rank itself
	id         uint32           // in every frame
	choices    []Choice
	plans      planCache
	ready      atomic.Pointer[transport.Mesh]
	died       atomic.Pointer[loss] // the first peer that died
	entered    entered

	mu      sync.Mutex
	seq     uint64 // place of the last collective
	made    int    // calls of NewGroup
	dups    int    // calls of dup
	queue   []*operation
	fresh   atomic.Bool // queue is not empty
	spare   *operation  // of a blocking call, reused
	driving bool        // a goroutine is in drive
	idle    chan struct{}
	closed  bool
	err     error // first error; set once
	abort   atomic.Pointer[abort]
	failing sync.WaitGroup // done when the peers have been told of err and what follows it is under way; Close waits for it

	cancelled atomic.Bool // a context of an operation has ended; the clock is asked at every idle round from then on

	// Owned by the goroutine that drives.
	active []*operation // collectives in order; only the first advances
	room   []*operation // empty, with the memory of the longest active
	pairs  []*operation // sends and receives in order of their posting
	port   port
	// pairsDue is when the first of pairs may be late; see duePairs.
	pairsDue time.Time
	cut      cut
	scratch  []byte
	staging  []byte // of operations that share a plan
	stash    stash
	busy     []bool // by peer: an earlier send has not ended in this round
	taken    []any  // by peer: the receive or stray that the message at the head of the lane belongs to

	answers answers
	gate    gate // of monitored barriers
	form    formation

	limits    limits
	vitals    vitals
	aftermath aftermath
	overdue   overdue // of asynchronous operations on devices
	prints    prints  // of what the ranks call
	dumping   atomic.Bool
	completed atomic.Uint64 // the last collective on the CPU
	owing     owing

	ledger ledger

	order      sync.Mutex // held while an operation is given to a backend; taken before mu
	backends   backends
	deviceCall backend.Call // the call at hand, reused
	inside     ownContext   // its context, for what the backend does of itself
}

// Rank returns this rank's number in the group, colligo.NoRank for a rank outside it. c10d: get_rank.
func (g *Group) Rank() int { return g.orOutside().rank }

// Size returns the number of ranks. c10d: get_world_size.
func (g *Group) Size() int { return g.orOutside().size }

// Name returns the group's name, equal on all ranks. c10d: _get_process_group_name.
func (g *Group) Name() string { return g.orOutside().name }

// Ranks returns the ranks of the default group that are members, in the order of their ranks here.
// c10d: get_process_group_ranks.
func (g *Group) Ranks() []int { return append([]int(nil), g.orOutside().ranks...) }

// Transport returns the medium of the group's mesh: "shm", "tcp", "sim", or "none" for a group of one rank.
func (g *Group) Transport() string {
	if g == nil || g.mesh == nil {
		return "none"
	}
	return g.mesh.String()
}

// Store returns the group's part of the store through which the ranks met. c10d: _get_process_group_store.
func (g *Group) Store() store.Store { return g.orOutside().store }

// Err returns the group's first error, nil while it works.
func (g *Group) Err() error {
	g = g.orOutside()
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

// Close leaves the group. Pending operations fail with colligo.ErrClosed; peers learn of it when they next need this rank.
// The last group of an Init also closes the store that Init opened. Close may be called in any order of groups, after a peer
// died, and more than once: a second call does nothing, and does not wait for the first. c10d: destroy_process_group.
func (g *Group) Close() error {
	g = g.orOutside()
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return nil
	}
	g.closed = true
	g.vitals.closing.Store(time.Now().UnixNano())
	if g.err == nil {
		g.err = colligo.ErrClosed
	}
	if g.driving {
		g.idle = make(chan struct{})
	}
	idle := g.idle
	g.abort.Store(&abort{0, time.Now()})
	g.mu.Unlock()
	g.wake()
	g.gate.stir()
	if idle != nil {
		<-idle
	}
	g.backends.abort(g.Err())
	g.order.Lock()
	err := g.backends.close()
	g.endFollowing()
	g.order.Unlock()
	g.ledger.hooks.close()
	g.failing.Wait()
	if g.mesh != nil {
		err = errors.Join(err, g.mesh.Close())
	}
	if g.rank == colligo.NoRank {
		return err
	}
	g.endWatching()
	return errors.Join(err, g.depart())
}

// enqueue gives an operation its place in the order. It returns the operation and whether the caller has to drive.
func (g *Group) enqueue(ctx context.Context, r *request, async bool) (*operation, bool, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
		return nil, false, g.err
	}
	op := g.spare
	if op == nil || async {
		op = &operation{}
	} else {
		g.spare = nil
	}
	if r.coll != plan.Send && r.coll != plan.Recv {
		g.seq = after(g.seq, !r.rec.own)
	}
	op.request, op.seq, op.ctx, op.lease = *r, g.seq, ctx, g.lease()
	g.admit(&op.request, within(ctx, op.lease.limit), 1)
	g.queue = append(g.queue, op)
	g.fresh.Store(true)
	drive := !g.driving
	g.driving = true
	if async || !drive {
		op.done = make(chan struct{})
	}
	return op, drive, nil
}

// run carries out a blocking call on the caller's goroutine, unless another goroutine drives the group already.
func (g *Group) run(ctx context.Context, r request) error {
	_, err := g.do(ctx, &r)
	return err
}

// runOf is run without a copy of the request, for what is called most.
func (g *Group) runOf(ctx context.Context, r *request) error {
	_, err := g.do(ctx, r)
	return err
}

// runFrom is run that also returns the rank that a receive came from.
func (g *Group) runFrom(ctx context.Context, r request) (source int, err error) { return g.do(ctx, &r) }

// do is runFrom and run.
func (g *Group) do(ctx context.Context, r *request) (source int, err error) {
	g = g.orOutside()
	r.rec.own, r.rec.skip = isOwn(ctx), 3 // do, run or runOf, and a method
	if done, err := g.trivial(r); done {
		return r.peer, err
	}
	if err := g.refuseNaN(ctx, r); err != nil {
		return r.peer, err
	}
	if r.device.Kind != colligo.CPU {
		_, err := g.onDevice(ctx, r, false)
		return r.peer, err
	}
	op, drive, err := g.enqueue(ctx, r, false)
	if err != nil {
		return 0, g.explain(r, 0, err, true)
	}
	if drive {
		g.drive(op)
	} else {
		g.mesh.Wake()
		<-op.done
	}
	source, err = op.peer, op.err
	g.recycle(op)
	return source, err
}

// start carries out a call in the background.
func (g *Group) start(ctx context.Context, r request) *Work {
	g = g.orOutside()
	r.rec.own, r.rec.skip = isOwn(ctx), 2 // start and a method
	if done, err := g.trivial(&r); done {
		return g.finished(&r, err)
	}
	if err := g.refuseNaN(ctx, &r); err != nil {
		return g.finished(&r, err)
	}
	if r.device.Kind != colligo.CPU {
		p, err := g.onDevice(ctx, &r, true)
		if err != nil {
			return g.finished(&r, err)
		}
		w := g.workOf(&r)
		w.device = p
		return w
	}
	op, drive, err := g.enqueue(ctx, &r, true)
	if err != nil {
		return g.finished(&r, g.explain(&r, 0, err, true))
	}
	if drive {
		go g.drive(nil)
	} else {
		g.mesh.Wake()
	}
	w := &Work{group: g, op: op, done: op.done}
	w.keepResults(&r)
	return w
}

// trivial ends calls that need no peer: misuse, and groups of one rank.
func (g *Group) trivial(r *request) (bool, error) {
	switch {
	case r.err != nil:
		return true, g.explain(r, 0, r.err, false)
	case g.rank == colligo.NoRank:
		return true, g.explain(r, 0, ErrNotMember, false)
	case g.size > 1:
		err := g.refuseAfterDeath(r)
		return err != nil, err
	}
	if r.device.Kind != colligo.CPU {
		if err := g.Err(); err != nil {
			return true, g.explain(r, 0, err, true)
		}
		return false, nil
	}
	return true, g.alone(r)
}

// alone carries out a call in a group of one rank.
func (g *Group) alone(r *request) error {
	g.mu.Lock()
	if err := g.err; err != nil {
		g.mu.Unlock()
		return g.explain(r, 0, err, true)
	}
	g.admit(r, g.Timeout(), 2)
	g.mu.Unlock()
	if !r.rec.own {
		g.ledger.beginAt(&r.rec, r.rec.called)
	}
	err := r.alone()
	if err != nil {
		err = g.explain(r, 0, err, false)
	}
	g.conclude(&r.rec, err)
	return err
}

// refuseAfterDeath fails the group when a call comes after a peer died.
func (g *Group) refuseAfterDeath(r *request) error {
	l := g.died.Load()
	if l == nil {
		return nil
	}
	err := g.explain(r, g.next(), classify(&transport.PeerError{Peer: l.peer, Err: l.err}), false)
	g.fail(err, true)
	return err
}

func (g *Group) recycle(op *operation) {
	op.reset()
	g.mu.Lock()
	g.spare = op
	g.mu.Unlock()
}

// explain wraps the cause of a failed call in who called what.
func (g *Group) explain(r *request, seq uint64, cause error, second bool) error {
	var known *colligo.OpError
	if errors.As(cause, &known) && !second {
		return cause
	}
	return &colligo.OpError{Group: g.name, Op: r.coll.String(), Seq: numberOf(seq), What: r.what(), Rank: g.rank,
		Peer: colligo.NoRank, Lane: colligo.NoRank, Step: colligo.NoRank, Second: second, Err: cause}
}

// String describes the group on one line.
func (g *Group) String() string {
	g = g.orOutside()
	return fmt.Sprintf("group %s: rank %d of %d over %s", g.name, g.rank, g.size, g.Transport())
}
