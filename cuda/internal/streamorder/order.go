package streamorder

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/internal/tenants"
	"github.com/colligo-go/colligo/pg/backend"
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
	// Commands is about how many commands a call enqueues. New sets it to 2: a graph of one kernel counts as two.
	Commands int
	// Usual gives the streams the priority of the program's own, instead of the highest. It is set before Open.
	Usual bool

	// Tenant is the group for the other groups that the process has on the device.
	Tenant *tenants.Tenant

	device     *cuda.Device
	carrier    Carrier
	rank, size int
	began      time.Time // from which room.since counts

	mu       sync.Mutex
	calls    Queue             // of the call that has begun last
	async    [NumQueues]Stream // of asynchronous operations
	made     []*Stream
	tails    [NumQueues]tail
	weight   int // of the commands enqueued since the last event of throttle
	throttle events
	ends     events
	timers   timers
	block    block
	watches  [NumQueues]watch
	room     room
	progress [NumQueues]progress
	closing  bool         // under mu and asking
	late     []cuda.Event // behind what Drain could not wait for

	asking  sync.Mutex
	helpers sync.WaitGroup // goroutines that Shut waits for
	done    chan struct{}  // closed by Shut
}

// New returns the order of a rank's operations on a device. Open makes its streams and events.
func New(d *cuda.Device, rank, size int, c Carrier) *Order {
	o := &Order{Commands: 2, device: d, carrier: c, rank: rank, size: size, began: time.Now(), done: make(chan struct{})}
	o.Tenant = tenants.New(d, o)
	return o
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
	for n, end := 0, time.Now().Add(limit); !o.mu.TryLock(); {
		if time.Now().After(end) {
			return false
		}
		n = Pause(n)
	}
	return true
}

// Go runs f in a goroutine that Shut waits for.
func (o *Order) Go(f func()) { o.helpers.Go(f) }

// Done is closed by Shut.
func (o *Order) Done() <-chan struct{} { return o.done }
