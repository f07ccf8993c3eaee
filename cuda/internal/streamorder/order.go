package streamorder

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/pg/backend"
	"github.com/colligo-go/colligo/plan"
)

// Carrier enqueues the operations that an Order has given a stream. The Order calls it with its lock held.
type Carrier interface {
	// Check refuses a call of which nothing has been enqueued yet. The stream is the caller's.
	Check(t cuda.Thread, c *backend.Call, caller cuda.Stream) error
	// Enqueue puts an operation on stream s.
	Enqueue(ctx context.Context, t cuda.Thread, c *backend.Call, s cuda.Stream) error
	// BeginBlock is told the calls of a block in the order in which Enqueue gets them. It reports whether sends and receives
	// may be on one stream: whether no send of the block can have to wait for its receiver.
	BeginBlock(calls []backend.Call) (together bool)
	// EndBlock enqueues on s whatever the block's calls have left to be enqueued together.
	EndBlock(t cuda.Thread, s cuda.Stream) error
	// DropBlock forgets the block, with its calls that were not enqueued.
	DropBlock()
}

// Order is the order of a group's operations on a device. It implements Run of backend.Backend, backend.Grouper and backend.Tracker.
//
// Locks. A call holds mu while it enqueues an operation or looks at queues. It holds asking while it records or asks ends and
// timers. A holder of mu may take asking, and no holder of asking waits for anything.
type Order struct {
	// Setup is the stream of opening, and of releasing waits after a failure.
	Setup Stream
	// Failure is the first error of the group, and the abort flag.
	Failure Failure
	// Watched and Settled are told when the watchdog records its event behind a queue, and when that event has happened. Both
	// may be nil, and are called with the order's lock held.
	Watched, Settled func(Queue)

	device     *cuda.Device
	carrier    Carrier
	rank, size int

	mu       sync.Mutex
	async    [NumQueues]Stream // of asynchronous operations
	made     []*Stream
	tails    [NumQueues]tail
	weight   int // of the commands enqueued since the last event of throttle
	throttle events
	ends     events
	timers   timers
	block    block
	watches  [NumQueues]watch
	progress [NumQueues]progress
	closing  bool // under mu and asking

	asking  sync.Mutex
	helpers sync.WaitGroup // goroutines that Shut waits for
	done    chan struct{}  // closed by Shut
}

// New returns the order of a rank's operations on a device. Open makes its streams and events.
func New(d *cuda.Device, rank, size int, c Carrier) *Order {
	return &Order{device: d, carrier: c, rank: rank, size: size, done: make(chan struct{})}
}

// Open makes the setup stream and the events.
func (o *Order) Open(t cuda.Thread) error {
	errs := []error{o.Make(t, &o.Setup), o.throttle.make(t, throttleEvents), o.ends.make(t, OpenEnds)}
	for _, e := range o.events() {
		var err error
		*e, err = t.NewEvent(false)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// events returns the events that Open makes one by one.
func (o *Order) events() (all []*cuda.Event) {
	for q := range o.tails {
		w := &o.tails[q]
		all = append(all, &w.handover, &w.captured, &w.left.event, &o.progress[q].behind.event, &o.watches[q].event)
	}
	return all
}

// Lock keeps operations from being enqueued.
func (o *Order) Lock() { o.mu.Lock() }

// Unlock undoes Lock.
func (o *Order) Unlock() { o.mu.Unlock() }

// LockWithin takes the lock unless that lasts longer than a limit, and reports whether it did. A call that enqueues holds the
// lock while it waits for the throttle, as long as the device waits.
func (o *Order) LockWithin(limit time.Duration) bool {
	for n, end := 0, time.Now().Add(limit); !o.mu.TryLock(); n++ {
		if time.Now().After(end) {
			return false
		}
		Pause(n)
	}
	return true
}

// Go runs f in a goroutine that Shut waits for.
func (o *Order) Go(f func()) { o.helpers.Go(f) }

// Done is closed by Shut.
func (o *Order) Done() <-chan struct{} { return o.done }

// tail is the end of a queue: the stream of its last operation. Its events are recorded and awaited in one go, so that they can be used
// again at once, except for left.
type tail struct {
	begun    bool
	stream   cuda.Stream
	handover cuda.Event
	captured cuda.Event // the end of the last asynchronous operation that was captured
	left     departure
}

// departure is the end of a queue's last operation that was not captured, while the operations after it are, on other
// streams.
type departure struct {
	open   bool
	legacy bool // it was on the legacy default stream, on which nothing may be recorded in a capture, but which stays
	event  cuda.Event
}

// from notes that a captured operation comes after one on stream s that was not.
func (d *departure) from(t cuda.Thread, s cuda.Stream) error {
	if d.open {
		return nil
	}
	if d.open, d.legacy = true, s == 0; d.legacy {
		return nil
	}
	return t.Record(d.event, s)
}

// before makes s, which is not captured, wait for the departure.
func (d *departure) before(t cuda.Thread, s cuda.Stream) error {
	if !d.open {
		return nil
	}
	if d.open = false; d.legacy {
		return Follow(t, s, 0, d.event)
	}
	return t.WaitEvent(s, d.event)
}

// take makes s wait for the queue's operation before, if that ran on another stream (invariants 1 and 2). The operations of
// a graph are ordered with others by where the graph is launched, so nothing waits across its border.
func (o *Order) take(t cuda.Thread, q Queue, s cuda.Stream) error {
	w := &o.tails[q]
	before, begun := w.stream, w.begun
	w.stream, w.begun = s, true
	if !begun || before == s && !w.left.open {
		return nil
	}
	into, graph, err := Capture(t, s)
	from, other, err2 := Capture(t, before)
	if err := cmp.Or(err, err2); err != nil {
		return err
	}
	if into && !from {
		return w.left.from(t, before)
	}
	if !into {
		err = w.left.before(t, s)
	}
	if err != nil || into != from || graph != other || before == s {
		return err
	}
	return Follow(t, s, before, w.handover)
}

// fork makes the stream of a queue's asynchronous operations wait for the caller's.
func (o *Order) fork(t cuda.Thread, q Queue, caller cuda.Stream) (cuda.Stream, error) {
	l := &o.async[q]
	if err := o.Make(t, l); err != nil {
		return 0, err
	}
	return l.Stream, Follow(t, l.Stream, caller, l.Event)
}

// Queue is one order of operations: the collectives of a group follow one another, and so do its sends, and its receives.
type Queue int

// The queues of a group.
const (
	Collectives Queue = iota
	Sends
	Receives
	NumQueues
)

// QueueOf returns the queue of an operation.
func QueueOf(c plan.Coll) Queue {
	switch c {
	case plan.Send:
		return Sends
	case plan.Recv:
		return Receives
	}
	return Collectives
}

type streamKey struct{}

// OnStream returns a context that names the stream on which the caller works.
func OnStream(ctx context.Context, s cuda.Stream) context.Context {
	return context.WithValue(ctx, streamKey{}, s)
}

// Of returns the stream of a context. Without one it is the legacy default stream.
func Of(ctx context.Context) cuda.Stream {
	s, _ := ctx.Value(streamKey{}).(cuda.Stream)
	return s
}
