package pg

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/internal/bootstrap"
	"github.com/colligo-go/colligo/pg/internal/control"
	"github.com/colligo-go/colligo/pg/internal/host"
	"github.com/colligo-go/colligo/pg/internal/op"
	"github.com/colligo-go/colligo/pg/internal/oplog"
	"github.com/colligo-go/colligo/store"
	"github.com/colligo-go/colligo/transport"
)

// ErrNotMember is the error of every operation on the handle that NewGroup gives to a rank outside the group.
var ErrNotMember = op.ErrNotMember

// Group is a set of ranks that run collectives together. All ranks must call the same collectives in the same order.
// Methods may be called from several goroutines; operations take their sequence numbers in the order of the calls.
// The first error of a group ends it: every pending and later operation fails with that error as its cause.
type Group struct {
	member
	config  Config
	log     *slog.Logger
	job     *sharedJob // of all groups of one Init
	mesh    atomic.Pointer[transport.Mesh]
	forming bootstrap.Formation
	control control.Channel // messages between ranks outside operations
	ops     oplog.Log
	host    *host.Backend // of operations on the CPU
	devices devices
	state   state
	limits  limits
	beat    heartbeat
	handler failureHandler
}

// member says which rank of which group this is.
type member struct {
	name       string
	rank, size int
	ranks      []int  // ranks of the default group, by rank of this group
	id         uint32 // in every frame
}

// state is how a group stands: the order of its operations, and what has ended it. Invariant 5 is kept here.
type state struct {
	mu      sync.Mutex
	seq     op.Seq // place of the last collective
	closed  bool
	err     error          // first error; set once
	failing sync.WaitGroup // done when the peers have been told of err and the failure handler is under way; Close waits for it
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
	if g == nil {
		return "none"
	}
	return g.host.Medium()
}

// Store returns the group's part of the store through which the ranks met. c10d: _get_process_group_store.
func (g *Group) Store() store.Store { return g.orOutside().forming.Store }

// Err returns the group's first error, nil while it works.
func (g *Group) Err() error {
	g = g.orOutside()
	g.state.mu.Lock()
	defer g.state.mu.Unlock()
	return g.state.err
}

// Close leaves the group. Pending operations fail with colligo.ErrClosed; peers learn of it when they next need this rank.
// The last group of an Init also closes the store that Init opened. Close may be called in any order of groups, after a peer
// died, and more than once: a second call does nothing, and does not wait for the first. c10d: destroy_process_group.
func (g *Group) Close() error {
	g = g.orOutside()
	g.state.mu.Lock()
	if g.state.closed {
		g.state.mu.Unlock()
		return nil
	}
	g.state.closed = true
	g.beat.closing.Store(time.Now().UnixNano())
	if g.state.err == nil {
		g.state.err = colligo.ErrClosed
	}
	idle := g.host.Idle()
	g.host.Abort(0, true)
	g.state.mu.Unlock()
	g.wake()
	g.control.Stir()
	if idle != nil {
		<-idle
	}
	err := g.devices.close(g.Err())
	g.ops.Hooks.Close()
	g.state.failing.Wait()
	if m := g.mesh.Load(); m != nil {
		err = errors.Join(err, (*m).Close())
	}
	if g.rank == colligo.NoRank {
		return err
	}
	g.handler.end()
	g.beat.closing.Store(0)
	g.job.monitor.remove(g)
	return errors.Join(err, g.depart())
}

// String describes the group on one line.
func (g *Group) String() string {
	g = g.orOutside()
	return fmt.Sprintf("group %s: rank %d of %d over %s", g.name, g.rank, g.size, g.Transport())
}
