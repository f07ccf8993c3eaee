package pg

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/backend"
	"github.com/colligo-go/colligo/pg/internal/host"
	"github.com/colligo-go/colligo/pg/internal/op"
)

// do carries out one operation. It is the life of every call, blocking or not, on every device:
//
//  1. Its arguments were checked as it was made (package op). A call ends here if its arguments are wrong or its rank is
//     outside the group. So does a call after a peer died, or with a NaN where NaNs are searched for.
//  2. Its tensors tell the carrier: the CPU backend, the backend of a device, or nothing but a copy in a group of one rank.
//     A device's backend is opened by the first operation that needs it. A call ends here if the backend lacks its reduction.
//  3. It takes its number in the group's order, its time limit, and its record in the flight recorder. It is pending now.
//  4. The carrier runs it. On the CPU the caller's own goroutine steps through the plan, or one that runs beside an
//     asynchronous call; work for a device is enqueued.
//  5. Its end is recorded, counted and told to the hooks, with an error that says who, where and how much. The CPU backend
//     and the watchdog, which sees what devices have done, tell it to the group.
//  6. An asynchronous call gets a backend.Pending, which start makes a Work.
//
// Locks: a device's carrier holds devices.order from step 2 to step 4. So its backend gets calls in the order of their
// numbers. Step 3 alone holds state.mu.
func (g *Group) do(ctx context.Context, o *op.Op, async bool) (backend.Pending, error) {
	o.With(ctx)
	if err := g.admissible(ctx, o); err != nil { // 1
		return nil, err
	}
	c := g.carrierOf(o) // 2
	if err := c.prepare(ctx, o); err != nil {
		return nil, err
	}
	defer c.release()
	g.state.mu.Lock() // 3
	if err := g.state.refusal(o.Own); err != nil {
		g.state.mu.Unlock()
		return nil, g.explain(o, 0, err, true)
	}
	if async {
		o.Done = c.done()
	}
	o.AtOnce = !async && c.claim(o)
	g.number(o, 1+2) // do, and run or start with a method before it
	run := c.take(o)
	g.state.mu.Unlock()
	return c.carry(o, async, run) // 4 to 6
}

// number gives an operation its place in the group's order, its time limit and its record. The recorder leaves out so many
// callers of number. The caller holds g.state.mu.
func (g *Group) number(o *op.Op, skip int) {
	if !o.P2P() {
		g.state.seq = g.state.seq.Next(!o.Own)
	}
	o.Seq = g.state.seq
	g.limits.grant(o)
	g.ops.Admit(o, o.Within(), skip+1)
}

// call returns an operation for a blocking call, whose arguments one of the operation's methods takes. Run takes it back.
func (g *Group) call() *op.Op {
	g = g.orOutside()
	return g.spares.Take(g.size, g.rank)
}

// newCall returns an operation for any other call, such as one whose Work keeps it.
func (g *Group) newCall() *op.Op {
	g = g.orOutside()
	return &op.Op{Size: int32(g.size), Rank: int32(g.rank)}
}

// run carries out a blocking call.
func (g *Group) run(ctx context.Context, o *op.Op) error {
	g = g.orOutside()
	_, err := g.do(ctx, o, false)
	g.spares.Put(o)
	return err
}

// start carries out a call in the background.
func (g *Group) start(ctx context.Context, o *op.Op) *Work {
	g = g.orOutside()
	w := g.newWork(o)
	w.settle(g.do(ctx, o, true))
	return w
}

// refusal returns why no operation can begin, nil if one can. A group that is being closed takes only operations of its own,
// which pending ones may need. The caller holds mu.
func (s *state) refusal(own bool) error {
	if s.err == nil && s.closed && !own {
		return colligo.ErrClosed
	}
	return s.err
}

// orOutside stands for a nil group, as a rank that a split leaves out may hold one: a handle outside.
func (g *Group) orOutside() *Group {
	if g == nil {
		return &Group{member: member{name: "none", rank: colligo.NoRank}, log: slog.New(slog.DiscardHandler), job: &sharedJob{},
			host: host.New(host.Config{})}
	}
	return g
}

// carrier is what do needs of the place where an operation's tensors lie.
type carrier interface {
	// prepare opens what carries the operation, and holds its order until release. It refuses what that does not carry out.
	prepare(ctx context.Context, o *op.Op) error
	release()
	// done returns the channel that is closed when an asynchronous operation is over, nil where a Pending tells it.
	done() chan struct{}
	// claim reports whether the turn of a blocking operation comes at once, and keeps it so; the caller holds state.mu.
	claim(o *op.Op) bool
	// take takes an operation in its order; the caller holds state.mu. It reports whether carry has to run the progress engine.
	take(o *op.Op) (run bool)
	// carry runs the operation. It returns a Pending for an asynchronous one.
	carry(o *op.Op, async, run bool) (backend.Pending, error)
}

// carrierOf returns the carrier of an operation.
func (g *Group) carrierOf(o *op.Op) carrier {
	switch {
	case !o.OnCPU():
		return (*onDevice)(g)
	case g.size == 1:
		return (*alone)(g)
	}
	return (*onHost)(g)
}

// admissible returns why a call cannot be carried out at all.
func (g *Group) admissible(ctx context.Context, o *op.Op) error {
	switch {
	case o.Wrong() != nil:
		return g.explain(o, 0, o.Wrong(), false)
	case g.rank == colligo.NoRank:
		return g.explain(o, 0, ErrNotMember, false)
	}
	if g.size > 1 {
		if lost := g.host.LostPeer(); lost != nil {
			return g.failAfterDeath(o, lost)
		}
	}
	if o.OnCPU() {
		if err := g.host.Check(o); err != nil {
			return g.explain(o, 0, err, false)
		}
	}
	if g.config.Debug.NaNCheck != On {
		return nil
	}
	return g.refuseNaN(ctx, o)
}

// failAfterDeath fails the group when a call comes after a peer died.
func (g *Group) failAfterDeath(o *op.Op, lost error) error {
	err := g.explain(o, g.next(), lost, false)
	g.fail(err, true)
	return err
}

// next returns the place of the collective that is called next.
func (g *Group) next() op.Seq {
	g.state.mu.Lock()
	defer g.state.mu.Unlock()
	return g.state.seq.Next(true)
}

// limits are how long operations of a group may take.
type limits struct {
	timeout time.Duration // of the configuration
	devices time.Duration // of operations on devices, where it differs; else 0
	changed atomic.Int64  // what SetTimeout said; 0: nothing

	extending atomic.Bool // some of what follows is not 0
	mu        sync.Mutex
	extra     time.Duration // all that operations get which are called now
	given     time.Duration // the part of it that operations under way take along when they end
}

// now returns the limit of operations that are called now.
func (l *limits) now() time.Duration {
	if d := l.changed.Load(); d > 0 {
		return time.Duration(d)
	}
	return l.timeout
}

// onDevices returns the limit of operations on devices that are called now.
func (l *limits) onDevices() time.Duration {
	if l.devices > 0 && l.changed.Load() == 0 {
		return l.devices
	}
	return l.now()
}

// grant gives an operation its limit, and what is left of the time that operations called now get on top.
func (l *limits) grant(o *op.Op) {
	if o.Limit = l.now(); !o.OnCPU() {
		o.Limit = l.onDevices()
	}
	if l.extending.Load() {
		l.extend(o)
	}
}

// extend adds the time that operations called now get on top.
func (l *limits) extend(o *op.Op) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if extra := l.extra - l.given; extra > 0 {
		o.More().Extra = extra
	}
	l.given = l.extra
	o.Limit += l.extra
}

// ended takes back the time that ends with an operation.
func (l *limits) ended(o *op.Op) {
	extra := o.Rare().Extra
	if extra == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.extra -= extra
	l.given -= extra
	l.extending.Store(l.extra > 0)
}
