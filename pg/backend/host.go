package backend

import (
	"context"
	"log/slog"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/plan"
)

// Host is what a backend sees of its group. Its methods may be called from any goroutine.
type Host interface {
	// Name, Rank and Size are the group's.
	Name() string
	Rank() int
	Size() int
	// Transport names the medium between the ranks' processes, such as "shm" or "tcp".
	Transport() string
	// Timeout is the limit of an operation whose context has no deadline.
	Timeout() time.Duration
	// ConnectTimeout is the limit of the ranks' finding one another.
	ConnectTimeout() time.Duration
	// Log is the group's logger.
	Log() *slog.Logger
	// Err returns the group's first error, nil while it works.
	Err() error
	// Fail ends the group with an error that the backend has met. The peers hear of it. Where the error is a Late, the peers are asked
	// first, and Fail waits for their answers.
	Fail(err error)
	// Count adds n to a counter that all ranks of the group share through its store, and returns the sum.
	Count(ctx context.Context, key string, n int64) (int64, error)
	// Set puts a value under a key of the group in its store. Get returns the value under a key once there is one. It ends with the
	// group's error if the group fails or is closed.
	Set(ctx context.Context, key string, value []byte) error
	Get(ctx context.Context, key string) ([]byte, error)
	// Torch returns what there is to know of other ranks that are PyTorch's, nil where all are colligo's. With ranks of PyTorch a
	// backend calls neither Count nor Do nor Dup.
	Torch() *Torch
	// Do carries out a call on tensors of the CPU and returns when it is done. All ranks of the group make the same calls in the
	// same order. The operation is the group's own: it has no number and is not recorded.
	Do(ctx context.Context, c *Call) error
	// Dup makes a group of the same ranks, as MPI_Comm_dup does, for operations in an order of their own. All ranks call it
	// together. Its failure is not this group's: the backend tells one of the other by Fail. An operation takes limit at most.
	Dup(ctx context.Context, limit time.Duration) (Dup, error)
	// Part makes a group of some ranks alone, this one among them, as Dup does of all of them. Rank i of the part is ranks[i]. All ranks of
	// the group call Dup and Part equally often, and the ranks of one part together.
	Part(ctx context.Context, ranks []int, limit time.Duration) (Dup, error)
}

// Dup is a group that Host.Dup or Host.Part has made. The backend closes it.
type Dup interface {
	Host
	// SetTimeout changes the limit of operations that begin from now on.
	SetTimeout(d time.Duration) error
	// Close leaves the group.
	Close() error
}

// Barrier returns when all ranks of a group have called it.
func Barrier(ctx context.Context, h Host) error {
	return h.Do(ctx, &Call{Coll: plan.Barrier})
}

// AllGather copies in of each rank to its part of out, on all ranks. Both are on the CPU, and out is as long as the ranks'
// parts together.
func AllGather(ctx context.Context, h Host, out, in colligo.Tensor) error {
	return h.Do(ctx, &Call{Coll: plan.AllGather, DType: in.DType(), Count: in.Len(), In: in, Out: out})
}
