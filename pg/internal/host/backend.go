package host

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/colligo-go/colligo/internal/engine"
	"github.com/colligo-go/colligo/pg/internal/op"
	"github.com/colligo-go/colligo/pg/tuning"
	"github.com/colligo-go/colligo/plan"
	"github.com/colligo-go/colligo/transport"
)

// Group is what the backend tells its group, and asks it. Only the goroutine that runs the progress engine calls it.
type Group interface {
	// Agree reports whether all ranks have come to a collective, with an error if they do not call the same. It is asked until
	// it is so; where calls are not compared it always is.
	Agree(o *op.Op) (bool, error)
	// Begin hears that an operation's turn has come.
	Begin(o *op.Op)
	// End hears that an operation is over, and of the plan by which a collective was carried out. The caller may reuse the
	// operation when Done is closed, or when the progress engine returns.
	End(o *op.Op, p *plan.Plan, err error)
	// Fail ends the group with an error that is about an operation.
	Fail(err error, at op.Seq) (changed bool)
	// Err returns the group's first error.
	Err() error
	// Explain wraps a cause into an error that says what was called. Second marks a consequence of another error.
	Explain(o *op.Op, at op.Seq, cause error, second bool) error
	// Late fails the group because an operation has had its time.
	Late(o *op.Op)
	// Called returns a collective that this rank has entered, while it is remembered.
	Called(at op.Seq) (transport.Call, bool)
	// Lingers hears that a collective is not over soon.
	Lingers(o *op.Op)
	// Stalled hears that a collective, or the oldest message, has stood still for some time.
	Stalled(o *op.Op)
}

// Config is what a backend has from its group.
type Config struct {
	ID     uint32 // of the group, in every frame
	Name   string // of the group, for messages
	Rank   int
	Size   int
	Global []int // ranks of the default group by rank of this one; nil where they are the same
	Tuning []tuning.Rule
	Group  Group
}

// Backend carries out one group's operations on the CPU.
type Backend struct {
	Config
	mesh    Mesh
	spinner transport.Spinner // the mesh, nil where it is none
	wire    Wire
	worker  *worker          // nil where there is no core for it
	at      tuning.Place     // where collectives run
	links   []transport.Link // by peer, nil for the rank itself

	turns atomic.Uint64 // starts and stops of the progress engine: odd while a goroutine runs it
	first *op.Op        // what that goroutine begins with, before the queue; it alone looks at it

	mu    sync.Mutex
	queue []*op.Op

	fresh     atomic.Bool                   // queue is not empty
	idle      atomic.Pointer[chan struct{}] // closed when the progress engine stops; nil if nobody has asked for it
	inquired  atomic.Bool                   // inquiries are open
	cancelled atomic.Bool                   // a context of an operation has ended; the clock is asked at every idle poll from then on
	expire    atomic.Pointer[op.Op]         // an operation, or one that stands for a block, whose caller waits no longer
	beats     atomic.Uint64                 // polls of the progress engine that found nothing to do
	abort     atomic.Pointer[abort]
	lost      atomic.Pointer[loss] // the first peer that died

	// Owned by the goroutine that runs the progress engine.
	active     []*op.Op // collectives in order; only the first advances
	room       []*op.Op // empty, with the memory of the longest active
	messages   []*Message
	due        time.Time    // before it no message is late; see dueMessages
	longest    pendingSince // of the oldest message
	start      Start        // of the collective that begins
	run        collective
	cut        cut
	plans      planCache
	last       planned // the plan that was taken last, and its key: a program's next call is often the same
	lastKey    planKey
	scratch    []byte
	packing    op.Room
	port       port
	head       transport.Header // of a message that is being sent
	busy       []bool           // by peer: an earlier send has not ended in this poll
	taken      []any            // by peer: the receive or the unexpected message that the message at the head of the lane belongs to
	unexpected unexpected
	spares     []*Message // to be used again
	inquiries  inquiries
}

// collective is the one that advances.
type collective struct {
	engine    engine.Run
	plan      *plan.Plan
	out       []byte        // where its plan writes
	finish    engine.Kernel // of the output, or nil
	stalledAt time.Time     // when the group hears that it lingers, or stands still
}

// New returns a backend without links.
func New(c Config) *Backend {
	b := &Backend{Config: c, busy: make([]bool, c.Size), taken: make([]any, c.Size)}
	b.wire = (*frames)(b)
	return b
}

// Mesh is what the progress engine needs of links to sleep on them, as transport.Mesh describes it.
type Mesh interface {
	Wait(idle int, until time.Time)
	Wake()
	String() string
}

// UseWire gives the backend a wire with links of its own, in place of a mesh that carries frames.
func (b *Backend) UseWire(m Mesh, w Wire) { b.mesh, b.wire = m, w }

// Refuse has the backend refuse every operation with an error, in place of links.
func (b *Backend) Refuse(why error) { b.wire = refusal{(*frames)(b), why} }

// refusal is the wire of a backend that has none.
type refusal struct {
	*frames
	why error
}

// Check implements Wire.
func (r refusal) Check(*op.Op) error { return r.why }

// Check returns why an operation cannot be carried out over the links, before it has a number.
func (b *Backend) Check(o *op.Op) error { return b.wire.Check(o) }

// Use gives the backend the mesh that links the ranks, and says where they are.
func (b *Backend) Use(mesh transport.Mesh, at tuning.Place) {
	b.mesh, b.at = mesh, at
	b.spinner, _ = mesh.(transport.Spinner)
	if at.Spare && runtime.GOMAXPROCS(0) > 1 {
		b.worker = newWorker(mesh)
	}
	b.links = make([]transport.Link, b.Size)
	for peer := range b.links {
		if peer != b.Rank {
			b.links[peer] = mesh.Link(peer)
		}
	}
	b.port.links, b.port.zero = b.links, make([]transport.ZeroCopier, b.Size)
	for peer, l := range b.links {
		b.port.zero[peer], _ = l.(transport.ZeroCopier)
	}
}

// Medium names the medium of the mesh, "none" for a group of one rank.
func (b *Backend) Medium() string {
	if b == nil || b.mesh == nil {
		return "none"
	}
	return b.mesh.String()
}

// Enqueue takes operations, in the order of the group: one call after the other. It reports whether the caller has to run the
// progress engine, because no other goroutine does. If another goroutine runs it, a single operation gets a Done channel.
func (b *Backend) Enqueue(o *op.Op) (run bool) {
	if o.AtOnce { // the caller has claimed the progress engine
		b.first = o
		return true
	}
	if b.Claim() {
		b.first = o
		return true
	}
	if o.Done == nil {
		o.Done = make(chan struct{})
	}
	return b.enqueue(o)
}

// EnqueueAll takes the operations of a block, between which no other may come. It reports the same as Enqueue.
func (b *Backend) EnqueueAll(all []*op.Op) (run bool) { return b.enqueue(all...) }

// enqueue puts operations into the queue. It reports whether the progress engine stood still, and is the caller's now.
func (b *Backend) enqueue(all ...*op.Op) (run bool) {
	b.mu.Lock()
	b.queue = append(b.queue, all...)
	b.fresh.Store(true)
	b.mu.Unlock()
	return b.engage()
}

// Claim reports whether the progress engine stands still and nothing is enqueued. If so it is the caller's, who then enqueues
// an operation that is AtOnce. It is called in the order of Enqueue.
func (b *Backend) Claim() bool { return !b.fresh.Load() && b.engage() }

// engage reports whether the progress engine stood still, and is the caller's now.
func (b *Backend) engage() bool {
	n := b.turns.Load()
	return n%2 == 0 && b.turns.CompareAndSwap(n, n+1)
}

// halt ends what engage began. It reports false if the engine is the caller's again, for an operation that was enqueued
// meanwhile. Enqueue sets fresh and then looks at turns, halt the other way round. So one of them sees the other.
func (b *Backend) halt() bool {
	b.turns.Add(1)
	if b.inquired.Load() || b.idle.Load() != nil {
		b.halted()
	}
	return !b.fresh.Load() || !b.engage()
}

// halted answers the inquiries and closes the channel of Idle, unless another goroutine runs the progress engine by now.
func (b *Backend) halted() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.Driven() {
		return
	}
	b.tell(b.nowhere())
	if idle := b.idle.Swap(nil); idle != nil {
		close(*idle)
	}
}

// Finish returns when an operation is over that Enqueue has taken. With run, the caller's goroutine runs the progress
// engine.
func (b *Backend) Finish(o *op.Op, run bool) {
	if run {
		b.progress(o)
	} else {
		b.mesh.Wake()
		<-o.Done
	}
}

// Start lets operations that Enqueue has taken make progress, without waiting for them. With run, it starts a goroutine for
// the progress engine.
func (b *Backend) Start(run bool) {
	if run {
		go b.progress(nil)
	} else {
		b.mesh.Wake()
	}
}

// Expire has an operation count as late at once, or the first pending one of a block that it stands for. If it is over,
// nothing happens.
func (b *Backend) Expire(o *op.Op) {
	b.expire.Store(o)
	b.cancelled.Store(true)
	b.mesh.Wake()
}

// Idle returns a channel that is closed when the progress engine stops, nil if it does not run.
func (b *Backend) Idle() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	idle := b.idle.Load()
	if idle == nil {
		c := make(chan struct{})
		idle = &c
		b.idle.Store(idle) // before the look at turns, as in enqueue
	}
	if !b.Driven() {
		return nil
	}
	return *idle
}

// Beats returns a count that rises while the progress engine runs.
func (b *Backend) Beats() uint64 { return b.beats.Load() + b.turns.Load() }

// Driven reports whether a goroutine runs the progress engine, or should.
func (b *Backend) Driven() bool { return b.turns.Load()%2 == 1 }

// LostPeer returns the error of the first peer that died, nil while all live.
func (b *Backend) LostPeer() error {
	l := b.lost.Load()
	if l == nil {
		return nil
	}
	return l.classified()
}
