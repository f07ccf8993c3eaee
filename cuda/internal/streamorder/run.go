package streamorder

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/pg/backend"
	"github.com/colligo-go/colligo/plan"
)

// Run enqueues an operation:
//
//  1. On a thread of the device, with the order's lock held, nothing is enqueued any more once the group has failed.
//  2. In a block the call is kept until End.
//  3. The carrier checks the call.
//  4. An asynchronous operation gets its queue's own stream, which first waits for the caller's.
//  5. The stream waits for the queue's operation before, if that is on another one.
//  6. The carrier enqueues the operation.
//  7. The throttle bounds what is in flight. The end of an asynchronous or timed operation is an event, which its Pending
//     asks. Some of the others are marked, so that Finished can tell how far a device has come that hangs.
func (o *Order) Run(ctx context.Context, c *backend.Call) (backend.Pending, error) {
	t, err := o.device.Enter() // (1)
	if err != nil {
		return nil, err
	}
	defer t.Leave()
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.Failure.Err(); err != nil {
		return nil, err
	}
	if o.block.open { // (2)
		return nil, o.join(ctx, t, c)
	}
	return o.runOn(ctx, t, c)
}

// runOn has steps 3 to 7 of Run, without its defers: with so many returns Go would defer by a list on the heap.
func (o *Order) runOn(ctx context.Context, t cuda.Thread, c *backend.Call) (backend.Pending, error) {
	q, s := QueueOf(c.Coll), Of(ctx)
	o.calls = q
	if err := o.carrier.Check(t, c, s); err != nil { // (3)
		return nil, err
	}
	if c.Async { // (4)
		var err error
		if s, err = o.fork(t, q, s); err != nil {
			return nil, err
		}
	}
	if !o.tails[q].goesOn(s) {
		if err := o.take(t, q, s); err != nil { // (5)
			return nil, err
		}
	}
	var w *timer
	if c.Timed {
		var err error
		if w, err = o.startTimer(t, s); err != nil {
			return nil, err
		}
	}
	if err := o.carrier.Enqueue(ctx, t, c, s); err != nil { // (6)
		return nil, err
	}
	o.progress[q].ran++
	if c.Async || w != nil { // (7)
		return o.pending(t, q, s, w)
	}
	if err := o.markCall(t, q, s, 1); err != nil {
		return nil, err
	}
	return nil, o.Throttle(t, s, o.Commands)
}

// tail is the end of a queue: the stream of its last operation. Its events are recorded and awaited in one go, so that they can be used
// again at once, except for left.
type tail struct {
	begun    bool
	stream   cuda.Stream
	handover cuda.Event
	captured cuda.Event // the end of the last asynchronous operation that was captured
	left     departure
}

// goesOn reports whether the next operation is on the stream of the last one, and has to wait for nothing else.
func (w *tail) goesOn(s cuda.Stream) bool { return w.begun && w.stream == s && !w.left.open }

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
	if w.goesOn(s) {
		return nil
	}
	before, begun := w.stream, w.begun
	w.stream, w.begun = s, true
	if !begun {
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

// Coll returns a kind of operation that the queue has.
func (q Queue) Coll() plan.Coll {
	switch q {
	case Sends:
		return plan.Send
	case Receives:
		return plan.Recv
	}
	return plan.AllReduce
}

type streamKey struct{}

// onStream is a context with a stream. Every call asks for the stream, and a context of context.WithValue takes longer to answer.
type onStream struct {
	context.Context
	stream any
}

// Value returns the stream.
func (c *onStream) Value(key any) any {
	if key == (streamKey{}) {
		return c.stream
	}
	return c.Context.Value(key)
}

// OnStream returns a context that names the stream on which the caller works. The stream has to stay as long as it is the tail of a queue.
// A nil context is one that never ends.
func OnStream(ctx context.Context, s cuda.Stream) context.Context {
	if ctx == nil {
		ctx = context.Background()
	}
	return &onStream{ctx, s}
}

// Of returns the stream of a context. Without one it is the legacy default stream.
func Of(ctx context.Context) cuda.Stream {
	s, _ := ctx.Value(streamKey{}).(cuda.Stream)
	return s
}

// Failure is how a group ends on a device: its first error, and the abort flag, at which kernels look while they wait.
type Failure struct {
	first  atomic.Pointer[error]
	raised atomic.Bool
	mu     sync.RWMutex // held while the flag is used, and alone while it is given back
	page   *cuda.Host   // the flag is its first word; nil if no kernel looks
}

// Look makes kernels look at the first word of a page. Free gives the page back.
func (f *Failure) Look(page *cuda.Host) { f.page = page }

// Set keeps the first error. It reports whether this was the first.
func (f *Failure) Set(cause error) bool { return f.first.CompareAndSwap(nil, &cause) }

// Err returns the first error, nil if nothing has failed.
func (f *Failure) Err() error {
	if p := f.first.Load(); p != nil {
		return *p
	}
	return nil
}

// Peaceful reports whether nothing has failed, though the group may be closed.
func (f *Failure) Peaceful() bool {
	err := f.Err()
	return err == nil || err == colligo.ErrClosed
}

// Raise sets the abort flag: kernels stop waiting, and no result counts any more.
func (f *Failure) Raise() {
	f.mu.RLock()
	defer f.mu.RUnlock()
	f.raised.Store(true)
	if f.page != nil {
		atomic.StoreUint32(f.flag(), 1)
	}
}

// Raised reports whether the abort flag is set. A kernel that finds a mistake sets it, too. It may be asked after Free.
func (f *Failure) Raised() bool {
	if f.raised.Load() {
		return true
	}
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.page != nil && atomic.LoadUint32(f.flag()) != 0
}

func (f *Failure) flag() *uint32 { return (*uint32)(unsafe.Pointer(&f.page.Bytes[0])) }

// Free gives the page of the flag back.
func (f *Failure) Free(t cuda.Thread) error {
	raised := f.Raised()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.page == nil {
		return nil
	}
	page := f.page
	f.page = nil
	f.raised.Store(raised)
	return t.FreeHost(page)
}

// markCall records the end of n calls that came together on s, if the budget allows it. The caller holds o.mu. It takes no other lock,
// for the watchdog keeps o.asking while it is in the driver.
func (o *Order) markCall(t cuda.Thread, q Queue, s cuda.Stream, n uint64) error {
	p := &o.progress[q]
	marked := p.marked.Load()
	open := marked - p.first.Load()
	if open == 0 && p.done.Load() >= p.ran-n { // after a pause
		p.budget.Store(firstMarks)
	}
	if p.budget.Load() <= 0 || open == mostMarks {
		return nil
	}
	m := &p.marks[marked%mostMarks]
	if m.event == 0 {
		var err error
		if m.event, err = t.NewEvent(false); err != nil {
			return err
		}
	}
	apart, err := recordApart(t, m.event, s)
	if !apart || err != nil {
		return err
	}
	m.ran = p.ran
	p.marked.Store(marked + 1)
	p.budget.Add(-1)
	return nil
}
