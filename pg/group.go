package pg

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/flight"
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

// Group is a set of ranks that run collectives together. All ranks must call the same collectives in the same order. Methods
// may be called from several goroutines; operations take their sequence numbers in the order of the calls. A nil Group is a
// rank outside every group.
//
// The first error of a group ends it: every pending and later operation fails with that error as its cause. c10d:
// ProcessGroup.
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
	handler failureHandler
	parting parting
	spares  op.Spares
}

// state is how a group stands: the order of its operations, and what has ended it. Invariant 5 is kept here.
type state struct {
	mu      sync.Mutex
	seq     op.Seq // place of the last collective
	closed  bool
	err     error          // first error; set once
	errAt   time.Time      // when it was set
	failing sync.WaitGroup // done when the peers have been told of err and the failure handler is under way; Close waits for it
}

// failedAt is when the group failed, in nanoseconds since 1970, 0 if it has not or was closed before.
func (s *state) failedAt() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.errAt.IsZero() {
		return 0
	}
	return s.errAt.UnixNano()
}

// Rank returns this rank's number in the group, from 0, and colligo.NoRank for a rank outside it. c10d: get_rank.
func (g *Group) Rank() int { return g.orOutside().rank }

// Size returns the number of ranks, also on the handle of a rank outside. c10d: get_world_size.
func (g *Group) Size() int { return g.orOutside().size }

// Name returns the group's name, equal on all ranks. c10d: _get_process_group_name.
func (g *Group) Name() string { return g.orOutside().name }

// Ranks returns the ranks of the default group that are members, in the order of their ranks here.
// c10d: get_process_group_ranks.
func (g *Group) Ranks() []int { return append([]int(nil), g.orOutside().ranks...) }

// Transport returns the medium of the group's links on the CPU: "shm", "tcp", "sim", or "none" for a group of one rank. No
// twin in c10d.
func (g *Group) Transport() string {
	if g == nil {
		return "none"
	}
	return g.host.Medium()
}

// Store returns the group's part of the store through which the ranks met. It closes with the last group of an Init, unless
// Config gave it. c10d: _get_process_group_store.
func (g *Group) Store() store.Store { return g.orOutside().forming.Store }

// Err returns the group's first error, nil while it works. After Close it is colligo.ErrClosed, or the error before it. It
// waits for nothing. NCCL: ncclCommGetAsyncError.
func (g *Group) Err() error {
	g = g.orOutside()
	g.state.mu.Lock()
	defer g.state.mu.Unlock()
	return g.state.err
}

// Close leaves the group. No operation begins any more, and pending ones get a second to end, on every device. Where a hook
// hears of them they get as long as the group's timeout. Those still pending then fail with colligo.ErrClosed. The error of
// Close names the operations that have failed meanwhile, unless the group had failed before. They are over all the same, and so
// is the group.
//
// Peers learn of it when they next need this rank. The last group of an Init also closes the store that Init opened. Groups
// may be closed in any order, also after a peer died. A rank that leaves out the last collective is found by the ranks that
// need something of it, while others may be gone by then. Config.CloseBarrier has all ranks find it.
//
// A second call does nothing, and does not wait for the first. Close waits for hooks, for dumps and for the backends of
// devices; it must not be called by a hook. c10d: destroy_process_group.
func (g *Group) Close() error {
	g = g.orOutside()
	g.control.TellHistory()
	var parted error
	if g.config.CloseBarrier == On && g.mesh.Load() != nil && !speaksTorch(g) { // there is no control channel
		parted = g.parting.part()
	}
	g.state.mu.Lock()
	if g.state.closed {
		g.state.mu.Unlock()
		return nil
	}
	g.state.closed = true
	failed := g.state.err != nil
	if !failed { // pending operations fail after their group, so all are named that it takes with it from here on
		g.ops.Unfinished.Watch()
	}
	g.state.mu.Unlock()
	if !failed {
		drain(g)
		if g.Err() == nil && g.devices.any() && g.mesh.Load() != nil && !speaksTorch(g) {
			g.parting.leave(&g.devices.watch)
		}
	}
	g.state.mu.Lock()
	g.handler.closing.Store(time.Now().UnixNano())
	if g.state.err == nil {
		g.state.err = colligo.ErrClosed
		g.handler.sound.end(colligo.ErrClosed)
	}
	idle := g.host.Idle()
	g.host.Abort(0, true)
	g.state.mu.Unlock()
	g.handler.wake()
	g.control.Stir()
	if idle != nil {
		<-idle
	}
	err := g.devices.close(endOfDevices(g))
	err = errors.Join(unfinished(g), err)
	g.ops.Hooks.Close()
	g.state.failing.Wait()
	if m := g.mesh.Load(); m != nil {
		err = errors.Join(err, (*m).Close())
	}
	if g.rank == colligo.NoRank {
		return err
	}
	err = errors.Join(parted, err)
	g.handler.end()
	g.handler.closing.Store(0)
	g.job.monitor.remove(&g.handler)
	return errors.Join(err, g.depart())
}

// String describes the group on one line.
func (g *Group) String() string {
	g = g.orOutside()
	return fmt.Sprintf("group %s: rank %d of %d over %s", g.name, g.rank, g.size, g.Transport())
}

// sharedJob is what all groups of one Init share: the store in which they form, and what looks after them.
type sharedJob struct {
	*bootstrap.Job
	ranks   int        // ranks of the default group
	names   torchNames // of groups with ranks of PyTorch
	open    openGroups
	monitor monitor
	dumper  dumper
}

// newJob returns the job of an Init, with the recorder of its groups, nil if there is none.
func newJob(met *bootstrap.Job, recorder *flight.Recorder) *sharedJob {
	j := &sharedJob{Job: met}
	j.dumper.recorder, j.dumper.failures = recorder, func() map[string]flight.Failure { return failures(j.open.list()) }
	j.dumper.comms = func() map[string]map[string]string { return communicators(j.open.list()) }
	recorder.BeforeDump(j.open.refresh)
	return j
}

// openGroups are the groups that have formed and are not closed.
type openGroups struct {
	mu  sync.Mutex
	all []*Group // in the order of their making
}

func (o *openGroups) add(g *Group) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, g)
}

// remove takes a group out, if it is there.
func (o *openGroups) remove(g *Group) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if i := slices.Index(o.all, g); i >= 0 {
		o.all = slices.Delete(o.all, i, i+1)
	}
}

// refresh has the recorder know how far the devices of all groups have come.
func (o *openGroups) refresh() {
	var all sync.WaitGroup
	for _, g := range o.list() {
		all.Go(g.devices.watch.Refresh)
	}
	all.Wait()
}

// list returns the groups in the order of their making.
func (o *openGroups) list() []*Group {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.all)
}

// depart takes this rank out of the job's books when its part of the group has ended.
func (g *Group) depart() error {
	medium := ""
	if m := g.mesh.Load(); m != nil {
		medium = (*m).String()
	}
	g.forming.Depart(lostPeers(g.Err()), medium)
	g.job.open.remove(g)
	g.ops.Close()
	return g.job.Leave()
}

// lostPeers returns the peers whose loss made a group fail, by whatever rank's word.
func lostPeers(err error) []int {
	if !errors.Is(err, colligo.ErrPeerLost) {
		return nil
	}
	return suspectsOf(err)
}

// communicators describes those of all groups, for a dump; nil if there are none.
func communicators(groups []*Group) (all map[string]map[string]string) {
	for _, g := range groups {
		for name, values := range g.devices.communicators() {
			if all == nil {
				all = map[string]map[string]string{}
			}
			all[name] = values
		}
	}
	return all
}

// failures are the errors of the groups that have failed, for a dump.
func failures(groups []*Group) map[string]flight.Failure {
	var all map[string]flight.Failure
	for _, g := range groups {
		err := g.Err()
		if err == nil || errors.Is(err, colligo.ErrClosed) {
			continue
		}
		f := flight.Failure{Text: clip(err.Error()), Time: g.state.failedAt()}
		var heard *control.Reported
		if errors.As(err, &heard) {
			f.Text = heard.Text
		}
		for _, rank := range suspectsOf(err) {
			f.Ranks = append(f.Ranks, g.ranks[rank])
		}
		if all == nil {
			all = map[string]flight.Failure{}
		}
		all[g.name] = f
	}
	return all
}

// speaksTorch reports whether other ranks of a group are PyTorch's.
func speaksTorch(g *Group) bool { return g.config.Torch != "" || overGloo(g.devices.selected) }
