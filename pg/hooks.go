package pg

import (
	"context"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/internal/oplog"
)

// WorkInfo is what a completion hook hears of an operation that has ended. c10d: WorkInfo.
type WorkInfo struct {
	Op       OpType
	Seq      uint64        // among the group's collectives, or among its sends and receives, from 1
	Started  time.Time     // when it was called, where it is not known when it began
	Finished time.Time     // for tensors on a GPU, when the group saw it
	Active   time.Duration // negative if it was not measured; see Group.SetTiming
	Bytes    int           // of the whole tensor
	DType    colligo.DType // of the elements; zero of a barrier, and of a block of several operations
	Peer     int           // of a send or receive, the rank in the group; colligo.NoRank of collectives, and where it is not known
	Err      error         // nil if it succeeded
}

// workInfo makes an entry of the operation log what a hook hears.
func workInfo(e *oplog.Entry) WorkInfo {
	w := WorkInfo{Op: OpType(e.Type), Seq: e.Number, Started: e.Began, Finished: e.Ended, Active: e.Took, Bytes: e.Bytes,
		DType: e.DType, Peer: e.Peer, Err: e.Err}
	if w.Started.IsZero() {
		w.Started = e.Called
	}
	return w
}

// OnCompletion makes the group call f after each operation, blocking ones too, in the order in which they end. Calls that
// were under way before may be left out. On a rank outside the group it does nothing.
//
// F is called from one goroutine of the group's own, and operations do not wait for it. Close waits until f has heard of
// all. So f must call neither Close nor WaitPending; it may start operations. c10d: _register_on_completion_hook.
func (g *Group) OnCompletion(f func(WorkInfo)) {
	if g != nil && g.rank != colligo.NoRank {
		g.ops.Hooks.Register(func(e oplog.Entry) { f(workInfo(&e)) })
	}
}

// Pending returns how many operations of the group have been called and are not over, on devices too. No twin: c10d can only
// wait for them.
func (g *Group) Pending() int {
	if g == nil {
		return 0
	}
	return g.ops.Pending()
}

// WaitPending returns when no operation is pending and the hooks have heard of all. Operations that failed count as over.
// For tensors on a GPU it waits until the device is done. Its error is the context's; the group stays as it is. c10d:
// _wait_for_pending_works.
func (g *Group) WaitPending(ctx context.Context) error {
	if g == nil || g.rank == colligo.NoRank {
		return ErrNotMember
	}
	if err := g.ops.Wait(ctx); err != nil {
		return err
	}
	return g.ops.Hooks.CaughtUp(ctx)
}
