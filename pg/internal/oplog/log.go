package oplog

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/flight"
	"github.com/colligo-go/colligo/pg/internal/op"
	"github.com/colligo-go/colligo/plan"
)

// Log is the operation log of one group: its records in the flight recorder, its counts, and the hooks. The group holds its
// order lock while it calls Admit, AdmitMore and Number; the other methods may be called from any goroutine.
type Log struct {
	Hooks      Hooks[Entry]
	Unfinished Unfinished

	recorder *flight.Recorder
	group    int // number of the group in the recorder
	rank     int
	timing   atomic.Bool // durations go into the recorder, and are measured on devices

	// Under the group's order lock. Calls is read without it.
	collectives, messages uint64        // numbers as c10d gives them, each from 1
	calls                 atomic.Uint64 // likewise, of both and of blocks
	sends, recvs          []string      // names by peer, from any peer on
	clock                 clock
	called                op.Moment         // when the last operation was called that has a number of its own
	created               int64             // the same in nanoseconds since 1970
	admitted              flight.Op         // what the recorder is told of an operation
	in, out               [1]colligo.Tensor // room for its tensors, where they are flat
	unit                  [1]colligo.Tensor // what c10d reduces in a barrier

	_ [64]byte // callers write what stands above, the watchdog of devices what stands below

	over     sync.Mutex    // guards what is known of operations that are over
	ended    uint64        // how many are no longer pending
	none     chan struct{} // closed when no operation has been pending since somebody waited; nil if nobody waits
	counters [op.NumTypes]counter
	traffic  traffic
}

// Entry is an operation that is over.
type Entry struct {
	ID            flight.ID
	Type          op.Type
	Number        uint64
	Bytes         int
	DType         colligo.DType
	Peer          int       // of a send or receive, colligo.NoRank of other operations
	Called, Began time.Time // Began is zero if it is not known
	Ended         time.Time
	Took          time.Duration // negative if it is not known
	Err           error
}

// EntryOf returns the entry of an operation, without its end.
func EntryOf(o *op.Op, err error) Entry {
	called, began := o.Times()
	e := Entry{ID: flight.ID(o.ID), Type: o.Type(), Number: o.Number, Bytes: o.Bytes(), DType: o.DType, Peer: colligo.NoRank,
		Called: called, Began: began, Took: o.Took(), Err: err}
	if o.P2P() {
		e.Peer = int(o.Peer)
	}
	return e
}

// Open makes the group known to a recorder, which may be nil.
func (l *Log) Open(recorder *flight.Recorder, name, desc string, rank int, ranks []int, timing bool) {
	l.recorder, l.rank = recorder, rank
	l.traffic.rank, l.traffic.size = rank, len(ranks)
	l.group = recorder.AddGroup(name, desc, ranks)
	l.sends, l.recvs = make([]string, len(ranks)+1), make([]string, len(ranks)+1)
	l.unit[0] = colligo.Of(make([]float32, 1))
	l.timing.Store(timing)
}

// clock tells moments, and what they are in nanoseconds since 1970. It reads the clock that can be set only once in a while.
type clock struct {
	read  op.Moment // when it was read last
	ahead int64     // what is between the two
}

// setting is how late a clock that was set may be noticed.
const setting = 100 * time.Millisecond

func (c *clock) now() (m op.Moment, since1970 int64) {
	if m = op.Now(); c.read == 0 || m-c.read >= op.Moment(setting) {
		m = c.look()
	}
	return m, int64(m) + c.ahead
}

// look reads both clocks at once.
func (c *clock) look() op.Moment {
	now := time.Now()
	c.read = op.MomentOf(now)
	c.ahead = now.UnixNano() - int64(c.read)
	return c.read
}

// Close says that the group records no more operations.
func (l *Log) Close() { l.recorder.CloseGroup(l.group) }

// Recorder returns the flight recorder, nil if there is none.
func (l *Log) Recorder() *flight.Recorder { return l.recorder }

// Group returns the group's number in the recorder.
func (l *Log) Group() int { return l.group }

// Collectives returns the number of the last collective. The caller holds the group's order lock.
func (l *Log) Collectives() uint64 { return l.collectives }

// SetTiming switches whether durations are recorded.
func (l *Log) SetTiming(on bool) { l.timing.Store(on) }

// Timing reports whether durations are recorded.
func (l *Log) Timing() bool { return l.timing.Load() }

// Counts returns the counts of a type of operation.
func (l *Log) Counts(t op.Type) Counts {
	l.over.Lock()
	defer l.over.Unlock()
	return l.counters[t].counts()
}

// Peers returns what has passed between this rank and each peer.
func (l *Log) Peers() []Peer {
	l.over.Lock()
	t := l.traffic.copied()
	l.over.Unlock()
	return t.peers()
}

// Admit gives an operation its number and records it, with its callers but the first skip. The limit is how long it may take.
func (l *Log) Admit(o *op.Op, limit time.Duration, skip int) {
	if o.Own {
		return
	}
	t := o.Type()
	o.As(t)
	if t.P2P() {
		l.messages++
	} else {
		l.collectives++
	}
	l.called, l.created = l.clock.now()
	l.record(o, t, limit, skip+1)
}

// AdmitMore is Admit under the number of the operation before, which was called together with it.
func (l *Log) AdmitMore(o *op.Op, limit time.Duration, skip int) {
	if o.Own {
		return
	}
	t := o.Type()
	o.As(t)
	l.record(o, t, limit, skip+1)
}

// record records an operation that has its number.
func (l *Log) record(o *op.Op, t op.Type, limit time.Duration, skip int) {
	p2p := o.OnlyP2P || t.P2P()
	if o.Number = l.collectives; p2p {
		o.Number = l.messages
	}
	o.Called, o.Created = l.called, l.created
	if o.AtOnce {
		o.StartedAtOnce()
	}
	call := l.calls.Add(1)
	if l.recorder == nil {
		o.ID = -1
		return
	}
	// Field by field: a struct of this size that is assigned as a whole is made elsewhere first.
	f := &l.admitted
	f.PG, f.Seq, f.P2PSeq, f.OpID = l.group, l.collectives, l.messages, call
	f.Name, f.P2P, f.Timeout, f.Created, f.Started = l.name(o, t), p2p, limit, o.Created, o.AtOnce
	f.Tag, f.Tagged = o.Tag, t.P2P()
	l.tensors(f, o, t)
	o.ID = int64(l.recorder.Add(f, skip+1))
	f.In, f.Out = nil, nil
}

// Begin notes that an operation is on its way.
func (l *Log) Begin(o *op.Op, now op.Moment) {
	if o.Own || o.AtOnce { // which was recorded as started
		return
	}
	if o.Started(now); l.recorder != nil {
		l.recorder.BeginAt(l.group, flight.ID(o.ID), collective(o), o.Created+int64(now-o.Called))
	}
}

// End notes how an operation has ended: in the recorder, in the counts, and for the hooks. P is the plan by which a
// collective was carried out, nil where there is none.
func (l *Log) End(o *op.Op, p *plan.Plan, err error) {
	if o.Own {
		return
	}
	since := o.Ended()
	t := o.Type()
	if l.recorder != nil {
		l.conclude(o, since, err)
	}
	l.over.Lock()
	l.count(t, o.Number, o.Bytes(), o.Took(), err)
	if p != nil {
		l.traffic.ran(p)
	} else if t.P2P() && err == nil {
		l.traffic.message(o.Coll == plan.Send, int(o.Peer), o.Bytes())
	}
	if l.Hooks.Any() {
		e := EntryOf(o, err)
		e.Ended = e.Called.Add(since)
		l.Hooks.Put(e)
	}
	l.done(1)
	l.over.Unlock()
}

// Conclude notes how an operation has ended that goes on to count as pending.
func (l *Log) Conclude(e *Entry) {
	if !e.Began.IsZero() {
		l.recorder.StartAt(e.ID, e.Began)
	}
	if e.Err != nil {
		l.recorder.Retire(e.ID)
	} else {
		l.recorder.CompleteAt(e.ID, l.recorded(e.Took), e.Ended)
	}
	l.Count(e)
	if l.Hooks.Any() {
		l.Hooks.Put(*e)
	}
}

// conclude notes the end of an operation in the recorder, so long after it was called.
func (l *Log) conclude(o *op.Op, since time.Duration, err error) {
	if id := flight.ID(o.ID); err != nil {
		l.recorder.Retire(id)
	} else {
		l.recorder.EndAt(l.group, id, collective(o), l.recorded(o.Took()), o.Created+int64(since))
	}
}

// recorded is the duration that goes into the recorder, negative for none.
func (l *Log) recorded(took time.Duration) time.Duration {
	if l.timing.Load() {
		return took
	}
	return -1
}

// collective returns an operation's number among the collectives, 0 for a send or receive.
func collective(o *op.Op) uint64 {
	if o.CountsAsP2P() {
		return 0
	}
	return o.Number
}

// Count counts an operation that is over.
func (l *Log) Count(e *Entry) {
	l.over.Lock()
	defer l.over.Unlock()
	if l.count(e.Type, e.Number, e.Bytes, e.Took, e.Err); e.Type.P2P() && e.Err == nil {
		l.traffic.message(e.Type == op.Send, e.Peer, e.Bytes)
	}
}

// count counts an operation of a type. The caller holds l.over.
func (l *Log) count(t op.Type, number uint64, bytes int, took time.Duration, err error) {
	switch {
	case t >= op.NumTypes:
	case err != nil:
		l.Unfinished.add(t, number)
		l.counters[t].fail()
	default:
		l.counters[t].done(bytes, took)
	}
}

// name returns an operation's name in a dump.
func (l *Log) name(o *op.Op, t op.Type) string {
	if o.Usual() && !t.P2P() {
		return t.Flight()
	}
	return l.otherName(o, t)
}

// otherName is the name of an operation whose type does not tell it. Names of sends and receives are made once for each peer.
func (l *Log) otherName(o *op.Op, t op.Type) string {
	r := o.Rare()
	switch {
	case r.Title != "":
		return r.Title
	case t == op.AllGather && r.Counts != nil:
		return "nccl:ALLGATHER_coalesced"
	case t == op.ReduceScatter && r.Counts != nil:
		return "nccl:REDUCE_SCATTER_coalesced"
	case !t.P2P():
		return t.Flight()
	}
	names, arrow := l.sends, "->"
	if o.Coll == plan.Recv {
		names, arrow = l.recvs, "<-"
	}
	name := &names[1+o.Peer] // any peer is -1, which readers of dumps take for a number too
	if *name == "" {
		*name = fmt.Sprintf("%s %d%s%d", t.Flight(), l.rank, arrow, o.Peer)
	}
	return *name
}

// tensors puts the tensors of a call into the recorder's operation as c10d has them: lists that it flattens are one tensor.
// Readers of dumps compare the ranks' inputs and outputs, and expect some of both. Of uneven calls, the tensors are recorded
// that are the same on all ranks. They count an all-to-all's first tensors only, so lists are one there too.
func (l *Log) tensors(f *flight.Op, o *op.Op, t op.Type) {
	f.In, f.Out = o.Inputs(), o.Outputs()
	in, out, counts := &l.in, &l.out, o.Rare().Counts
	switch {
	case t == op.AllReduce:
	case t == op.Barrier:
		f.In, f.Out = l.unit[:], l.unit[:]
	case t == op.AllGather && counts != nil:
		f.In = f.Out
	case t == op.AllGather:
		out[0] = flat(f.Out)
		f.Out = out[:]
	case t == op.ReduceScatter && counts != nil:
		f.Out = f.In
	case t == op.ReduceScatter:
		in[0] = flat(f.In)
		f.In = in[:]
	case t == op.Gather && counts != nil:
		f.In = partsOf(counts, f.In[0].DType())
	case t == op.Scatter && counts != nil:
		f.Out = partsOf(counts, f.Out[0].DType())
	case t == op.AllToAll:
		in[0], out[0] = flat(f.In), flat(f.Out)
		f.In, f.Out = in[:], out[:]
	}
}

// partsOf has a tensor for each rank's part; of their memory it says nothing.
func partsOf(counts []int, d colligo.DType) []colligo.Tensor {
	ts := make([]colligo.Tensor, len(counts))
	for i, n := range counts {
		ts[i] = colligo.Raw(nil, n, d)
	}
	return ts
}

// flat has the elements of a list in one dimension; of its memory it says nothing.
func flat(ts []colligo.Tensor) colligo.Tensor {
	n := 0
	for _, t := range ts {
		n += t.Len()
	}
	return colligo.Raw(nil, n, ts[0].DType())
}

// Pending returns how many operations have been called and have not ended.
func (l *Log) Pending() int {
	l.over.Lock()
	defer l.over.Unlock()
	return l.pending()
}

// pending counts the operations that have not ended. The caller holds l.over.
func (l *Log) pending() int { return int(l.calls.Load() - l.ended) }

// Done notes that n operations are no longer pending, which Conclude or Count has counted.
func (l *Log) Done(n int) {
	if n == 0 {
		return
	}
	l.over.Lock()
	defer l.over.Unlock()
	l.done(n)
}

// done notes that n operations are no longer pending, and wakes Wait after the last. The caller holds l.over.
func (l *Log) done(n int) {
	l.ended += uint64(n)
	if l.none != nil && l.pending() == 0 {
		close(l.none)
		l.none = nil
	}
}

// Wait returns when no operation was pending at some moment since the call.
func (l *Log) Wait(ctx context.Context) error {
	l.over.Lock()
	if l.pending() == 0 {
		l.over.Unlock()
		return nil
	}
	if l.none == nil {
		l.none = make(chan struct{})
	}
	none := l.none
	l.over.Unlock()
	select {
	case <-none:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
