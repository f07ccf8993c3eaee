package backend

import (
	"context"
	"errors"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/plan"
)

// Call is one operation as a backend gets it. Its arguments are checked, and it has its number in the group's order. Counts
// are those of plan.Shape, in elements of DType. The backend must not keep the Call after Run has returned.
type Call struct {
	Coll               plan.Coll
	DType              colligo.DType
	Op                 colligo.ReduceOp // of collectives that reduce
	Root, Peer, Tag    int
	Count              int
	Counts, RecvCounts []int
	In, Out            colligo.Tensor   // contiguous; invalid where the rank has none, or a list
	Ins, Outs          []colligo.Tensor // one contiguous tensor for each rank, or nil
	Seq                uint64           // the operation's number, for messages; sends and receives have that of the collective before
	Async              bool             // the caller wants a Work
	Timed              bool             // the call is measured: it gives a Pending, which is a Timed
}

// Pending is an operation that a backend has enqueued.
type Pending interface {
	// Wait makes what the caller does next on its device wait for the operation. The context tells which stream that is.
	Wait(ctx context.Context) error
	// Synchronize blocks until the operation is done, and returns its error.
	Synchronize(ctx context.Context) error
	// Done reports without blocking whether the operation is done, failed ones included.
	Done() bool
}

// Backend carries out a group's operations on tensors of one device.
type Backend interface {
	// Run enqueues a call, on the caller's stream unless the call is Async. It returns a Pending for Async and for Timed calls
	// only. A Barrier is always Async, and its Pending is done when everything is that this rank enqueued before it.
	Run(ctx context.Context, c *Call) (Pending, error)
	// Abort ends what is pending because the group has failed, and everything that comes later. It does not wait.
	Abort(cause error)
	// Close gives everything back, after Abort or when nothing is pending. It may wait for goroutines that call Host.Fail.
	Close() error
}

// Grouper is a Backend that can launch several calls as one, as ncclGroupStart and ncclGroupEnd do.
type Grouper interface {
	Backend
	// Begin opens a block of n calls. It may have messages of the rank to itself: as many sends as receives, matched in their
	// order. Until End, Run may leave everything undone, and need not return a Pending.
	Begin(ctx context.Context, n int, async bool) error
	// End launches what Run has been given since Begin, also after a Run has failed. It returns one Pending for all calls if the
	// block is async, or one of its calls is Timed.
	End(ctx context.Context) (Pending, error)
}

// Reduction is what a collective reduces, and how.
type Reduction struct {
	Coll           plan.Coll
	DType          colligo.DType
	Kind           colligo.OpKind
	Bytes          int // of Call.Count elements
	Lists, InBlock bool
}

// ReductionOf returns what a call reduces, alone or in a block.
func ReductionOf(c *Call, inBlock bool) Reduction {
	return Reduction{Coll: c.Coll, DType: c.DType, Kind: c.Op.Kind(), Bytes: c.Count * c.DType.Size(), Lists: c.Ins != nil || c.Outs != nil, InBlock: inBlock}
}

// Selective is a Backend that does not have every reduction.
type Selective interface {
	Backend
	// Refuses returns why the backend does not carry out a reduction, nil if it does. All ranks get the same answer. The group
	// asks before the call has its number, and goes on after a refusal.
	Refuses(r Reduction) error
}

// Tracker is a Backend that can tell how far its device has come with calls that gave no Pending.
type Tracker interface {
	Backend
	// Finished returns without blocking how many calls of Run the device is through with: of collectives, of sends or of
	// receives, by what coll is. The number may lag behind, for the caller asks again. After Close it is final.
	Finished(coll plan.Coll) uint64
}

// Timed is a Pending that can tell how long its operation took on the device.
type Timed interface {
	Pending
	// Begun reports without blocking whether the operation's turn has come; false if that was not measured.
	Begun() bool
	// Took returns the time between the operation's turn and its end once it is done; false if that was not measured.
	Took() (time.Duration, bool)
}

// Stager is a Backend that can carry the objects of object collectives. Its methods are called in the order of the operations
// around them.
type Stager interface {
	Backend
	// Stage takes memory of the device for bytes of an element type, and copies them there before what the caller enqueues next.
	Stage(ctx context.Context, b []byte, d colligo.DType) (colligo.Tensor, error)
	// Unstage waits for what has been enqueued, copies the memory to b unless that is nil, and gives the memory back, also after
	// an error.
	Unstage(ctx context.Context, t colligo.Tensor, b []byte) error
}

// Reader is a Backend whose tensors the host can look into, as the search for NaN does.
type Reader interface {
	Backend
	// Read calls see with the bytes of a contiguous tensor, piece after piece of whole elements, until see returns false. It
	// begins when everything is done that the caller's stream had to do before. See must not keep the bytes.
	Read(ctx context.Context, t colligo.Tensor, see func(piece []byte) bool) error
}

// Registrar is a Backend that can make memory of all ranks known to one another, so that collectives on it are faster.
type Registrar interface {
	Backend
	// Register makes the memory of a contiguous tensor known to the peers. All ranks call it together, with as many bytes.
	Register(ctx context.Context, t colligo.Tensor) (Registration, error)
}

// Registration is memory that a Registrar has made known.
type Registration interface {
	// Close ends the registration. All ranks call it together, when no operation uses the memory. The memory may be freed then.
	Close() error
}

// ErrCaptured is the error of a Pending whose operation was captured by a graph: it is done whenever the graph is.
var ErrCaptured = errors.New("the operation was captured by a graph; it is done when the graph is")
