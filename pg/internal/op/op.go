package op

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/plan"
)

// AnyPeer as the peer of a receive takes a message from the rank that sends first.
const AnyPeer = plan.None

// ErrNotMember is what is wrong with every operation of a rank outside the group.
var ErrNotMember = errors.New("this rank is not a member of the group")

// Op is one operation. Lengths and counts are in elements.
type Op struct {
	In, Out colligo.Tensor // what was called with, where it is no list; invalid where the rank has none
	Count   int            // of even collectives the length that plan.Shape has; of messages the length

	Coll   plan.Coll
	kind   Type // the type plus one, where Coll and tensors do not tell it; else 0
	DType  colligo.DType
	Reduce colligo.OpKind     // of collectives that reduce
	Device colligo.DeviceKind // of the tensors
	Own    bool               // the group's own: it has no number, and is neither recorded nor counted
	Begun  bool               // its turn has come
	Over   bool               // it has ended, with Err
	AtOnce bool               // its turn comes with the call
	Any    bool               // a receive that was posted for any peer
	// OnlyP2P marks the entry of a block that has only sends and receives.
	OnlyP2P bool
	// Held marks an operation of a block whose Pending is still to come.
	Held bool
	// Watched says that the end of Ctx wakes the progress engine.
	Watched bool
	// unusual says that rare is in use. Its memory stays with an operation that is used again.
	unusual bool

	index      int32 // of the device
	Size, Rank int32
	Root       int32
	Peer, Tag  int32 // of send and recv; of a receive from any peer, the peer that it came from

	Seq Seq             // place in the group's order, the same on all ranks; a message has that of the collective before it
	Ctx context.Context // of the call; nil is one that never ends

	// Values that the recorder, the metrics and the hooks hear.
	ID      int64         // in the recorder; negative if nothing was recorded
	Number  uint64        // among the group's collectives, or among its sends and receives, from 1; 0 until it has one
	Called  Moment        // zero if the operation was refused
	Created int64         // Called in nanoseconds since 1970, if the operation has a number
	began   time.Duration // from Called until its turn, plus 1 so that 0 is unknown
	took    time.Duration // plus 1

	Limit  time.Duration // how long the operation may take from when it can begin
	waited time.Duration // from Called until the limit began to count, plus 1

	Done chan struct{} // closed when the operation is over; nil if only the goroutine that runs the progress engine waits
	Err  error
	rare *Rare

	known *known // of Ctx; nil for an operation that is not used again
}

// Rare has the fields that few operations need.
type Rare struct {
	Ins, Outs     []colligo.Tensor // one tensor for each rank; of an operation that stands for several, the tensors of all
	in, out       []byte           // the memory of a list whose tensors follow one another
	stageIn       bool             // the input is copied first, for the output lies in it
	Counts, Recvs []int            // of uneven collectives
	Strides       []int            // of all tensors on a device that are not contiguous; In, Out and lists are flat in their memory
	Factor        colligo.ReduceOp // of premul_sum
	Parts         []Part           // the operations that this one stands for, see Together
	Signed        int32            // their Signature, where they are not known
	Title         string           // in the flight recorder, where the type does not tell it
	Wrong         error            // what is wrong with the arguments
	Block         *Block           // the block that the operation is one of
	Record        *Op              // of an operation on a device that is one of several with one record: what stands for them, see Record

	ToSelf   bool // a message whose peer is this rank
	OtherEnd *Op  // of such a message: the receive, or the send
	Taken    bool // of such a send: the receive has it

	Extra   time.Duration // ends with the operation: what AddEphemeralTimeout gave it
	Stop    func() bool   // ends the watch of Ctx
	Failure error         // this operation's own error, whatever made the group fail first
	Late    error         // its error if the group failed because it was late, or because a peer is gone
	Check   any           // of the ranks' fingerprints, at debug level DETAIL
	After   func() bool   // the turn of a collective on the CPU has not come before it reports true
	staged  [2][]byte     // of a message that is not contiguous
}

// nothing is the Rare of operations that have none. It is only read.
var nothing = new(Rare)

// Rare returns the fields that few operations need, to be read.
func (o *Op) Rare() *Rare {
	if !o.unusual {
		return nothing
	}
	return o.rare
}

// Usual reports whether an operation needs none of Rare.
func (o *Op) Usual() bool { return !o.unusual }

// More returns it to be written.
func (o *Op) More() *Rare {
	if o.rare == nil {
		o.rare = new(Rare)
	}
	o.unusual = true
	return o.rare
}

// Recorded returns the operation by which this one is numbered and recorded: itself, or what stands for it and others.
func (o *Op) Recorded() *Op {
	if r := o.Rare().Record; r != nil {
		return r
	}
	return o
}

// Reset makes an operation that is over zero again, so that a block can use it for another call.
func (o *Op) Reset() {
	r, k := o.rare, o.known
	if o.unusual {
		*r = Rare{}
	}
	*o = Op{} // a literal with the fields set would be made elsewhere and copied
	o.rare, o.known = r, k
}

// Release drops the references to the caller's memory.
func (o *Op) Release() {
	o.In, o.Out = colligo.Tensor{}, colligo.Tensor{}
	if r := o.rare; o.unusual {
		r.Ins, r.Outs, r.in, r.out, r.staged, r.Parts = nil, nil, nil, nil, [2][]byte{}, nil
	}
}

// P2P reports whether the operation is a send or a receive.
func (o *Op) P2P() bool { return o.Coll == plan.Send || o.Coll == plan.Recv }

// Posted returns the peer that a send or receive was posted for, AnyPeer for a receive from any.
func (o *Op) Posted() int {
	if o.Any {
		return AnyPeer
	}
	return int(o.Peer)
}

// CountsAsP2P reports whether the operation's number is among those of sends and receives.
func (o *Op) CountsAsP2P() bool { return o.OnlyP2P || o.Type().P2P() }

// OnCPU reports whether the tensors lie in memory of this process.
func (o *Op) OnCPU() bool { return o.Device == colligo.CPU }

// DeviceID returns the device of the tensors.
func (o *Op) DeviceID() colligo.Device {
	return colligo.Device{Kind: o.Device, Index: int(o.index)}
}

// Elem returns the bytes of one element, 1 for a barrier.
func (o *Op) Elem() int {
	if o.DType.Valid() {
		return o.DType.Size()
	}
	return 1
}

// ReduceOp returns the reduction.
func (o *Op) ReduceOp() colligo.ReduceOp {
	if o.Reduce == colligo.KindPremulSum {
		return o.Rare().Factor
	}
	return o.Reduce.Op()
}

// Started notes that the operation's turn has come.
func (o *Op) Started(now Moment) {
	d := now - o.Called + 1
	if o.Called == 0 {
		d = 1 // nobody asks when
	}
	atomic.StoreInt64((*int64)(&o.began), int64(d))
}

// StartedAtOnce notes that the operation's turn comes with the call. No other goroutine knows the operation yet.
func (o *Op) StartedAtOnce() { o.began = 1 }

// HasStarted reports whether the operation's turn has come. Any goroutine may ask it.
func (o *Op) HasStarted() bool { return atomic.LoadInt64((*int64)(&o.began)) != 0 }

// Times returns when the operation was called, and when its turn came, by the clock as it is set now. The latter is zero if it is not known.
func (o *Op) Times() (called, began time.Time) {
	now := time.Now()
	called = now.Add(time.Duration(o.Called - MomentOf(now)))
	if o.began > 0 {
		began = called.Add(o.began - 1)
	}
	return called, began
}

// Ended notes that the operation is over, and returns how long after Called that is.
func (o *Op) Ended() time.Duration {
	now := Now()
	if o.Called == 0 {
		o.Called = now
	}
	since := time.Duration(now - o.Called)
	if o.took == 0 && o.began > 0 {
		o.took = since - (o.began - 1) + 1
	}
	return since
}

// Took returns how long the operation was on its way, negative if that is not known.
func (o *Op) Took() time.Duration {
	return o.took - 1
}

// Clock has the operation's limit count from now on, unless it does already. A deadline of the context takes the limit's
// place.
func (o *Op) Clock(now time.Time) {
	if o.waited != 0 {
		return
	}
	at := MomentOf(now)
	if o.Called == 0 {
		o.Called = at
	}
	o.waited = time.Duration(at-o.Called) + 1
	if o.Ctx != nil {
		if d, ok := o.Ctx.Deadline(); ok {
			read := time.Now() // a deadline may be known by the time of day alone, and that of a Moment is as the process began
			o.Limit = d.Sub(read) + time.Duration(MomentOf(read)-at)
		}
	}
}

// Clocked returns when the limit began to count, zero if it does not yet.
func (o *Op) Clocked() time.Time {
	if o.waited == 0 {
		return time.Time{}
	}
	return o.Called.Time().Add(o.waited - 1)
}

// Deadline returns when the operation is late, zero while its limit does not count.
func (o *Op) Deadline() time.Time {
	if o.waited == 0 {
		return time.Time{}
	}
	return o.Called.Time().Add(o.waited - 1 + o.Limit)
}

// Expired reports whether the operation has had its time, or its context was cancelled, with that cause.
func (o *Op) Expired(now time.Time) (late bool, cause error) {
	if o.Ctx != nil && errors.Is(o.Ctx.Err(), context.Canceled) {
		return true, context.Cause(o.Ctx)
	}
	return o.waited != 0 && !now.Before(o.Deadline()), nil
}

// The result of What describes the call's arguments, such as "float32 sum, 4 MiB".
func (o *Op) What() string {
	if o.Coll == plan.Barrier || !o.DType.Valid() {
		return ""
	}
	s := o.DType.String()
	if o.Coll.Reduces() {
		s += " " + o.Reduce.String()
	}
	s += ", " + colligo.FormatBytes(int64(o.Bytes()))
	if o.Coll.Rooted() {
		s += fmt.Sprintf(", root %d", o.Root)
	}
	if n := len(o.Rare().Parts); n > 0 {
		s += fmt.Sprintf(", %d tensors", n)
	}
	return s
}

// Bytes returns the bytes of the whole tensor: the larger of what all ranks put in and get out. It is the same on all ranks,
// but for an all_to_all with splits.
func (o *Op) Bytes() int { return o.Elements() * o.Elem() }

// Elements returns the elements of the whole tensor: the larger of what all ranks put in and get out.
func (o *Op) Elements() int {
	if counts := o.Rare().Counts; counts != nil {
		n := 0
		for _, c := range counts {
			n += c
		}
		return n
	}
	switch o.Coll {
	case plan.AllGather, plan.ReduceScatter, plan.Gather, plan.Scatter, plan.AllToAll:
		return o.Count * int(o.Size)
	}
	return o.Count
}

// TuningBytes is the bytes by which an algorithm is picked, the same on all ranks. An all_to_all counts as 0, for each rank
// may have splits of its own.
func (o *Op) TuningBytes() int {
	if o.Coll == plan.AllToAll {
		return 0
	}
	return o.Bytes()
}

// Inputs returns the tensors that were called with, in memory of the operation. A tensor that c10d changes in place is input
// and output.
func (o *Op) Inputs() []colligo.Tensor {
	switch {
	case o.In.Valid():
		return one(&o.In)
	case o.Rare().Ins != nil:
		return o.rare.Ins
	case o.Coll == plan.Broadcast || o.Coll == plan.Recv:
		return one(&o.Out)
	}
	return nil
}

// Outputs returns the tensors in which the results will be, in memory of the operation.
func (o *Op) Outputs() []colligo.Tensor {
	switch {
	case o.Out.Valid():
		return one(&o.Out)
	case o.Rare().Outs != nil:
		return o.rare.Outs
	case o.Coll == plan.Broadcast || o.Coll == plan.Reduce || o.Coll == plan.Send:
		return one(&o.In)
	}
	return nil
}

// Results returns the tensors that will hold the results, none of an operation whose arguments are wrong.
func (o *Op) Results() []colligo.Tensor {
	if o.Rare().Wrong != nil {
		return nil
	}
	return append([]colligo.Tensor(nil), o.Outputs()...)
}

func one(t *colligo.Tensor) []colligo.Tensor { return unsafe.Slice(t, 1) }
