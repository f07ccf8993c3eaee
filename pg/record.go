package pg

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/flight"
	"github.com/colligo-go/colligo/plan"
)

// counts are numbers of operations as c10d gives them, each from 1: of collectives, of sends and receives, and of calls.
type counts struct{ coll, pairs, calls uint64 }

// record is what is remembered of an operation besides its work.
type record struct {
	id                   flight.ID
	kind                 OpType
	own                  bool // nothing is remembered
	counts                    // as of this operation
	bytes                int
	skip                 int       // callers in pg of what admits the call
	onlyPairs            bool      // a block of sends and receives, which is none of the collectives either
	called, began, ended time.Time // began and ended are zero until known
}

// p2p reports whether the operation counts among sends and receives.
func (r *record) p2p() bool { return r.onlyPairs || r.kind.P2P() }

// number is the operation's own: a collective's among collectives, a send's among sends and receives.
func (r *record) number() uint64 {
	if r.p2p() {
		return r.pairs
	}
	return r.coll
}

// took is how long the operation was on its way, negative if that is not known.
func (r *record) took() time.Duration {
	if r.began.IsZero() || r.ended.IsZero() {
		return -1
	}
	return r.ended.Sub(r.began)
}

// info is what hooks hear of an operation that is over.
func (r *record) info(took time.Duration, err error) WorkInfo {
	w := WorkInfo{Op: r.kind, Seq: r.number(), Started: r.began, Finished: r.ended, Active: took, Bytes: r.bytes, Err: err}
	if w.Started.IsZero() {
		w.Started = r.called
	}
	return w
}

// ledger is what a group remembers of its operations.
type ledger struct {
	recorder     *flight.Recorder
	number       int               // of the group in the recorder
	counts                         // under Group.mu
	sends, recvs []string          // names by peer, from anyPeer on; under Group.mu
	in, out      [1]colligo.Tensor // room for what is recorded; under Group.mu
	unit         colligo.Tensor    // what c10d reduces in a barrier
	timing       atomic.Bool       // durations go into the recorder, and are measured on devices
	metrics      metrics
	hooks        hooks
	pending      pendingCount
	devices      follower
}

// remember makes the group known to the recorder of its job.
func (g *Group) remember() {
	l := &g.ledger
	l.recorder = g.job.recorder
	l.number = l.recorder.AddGroup(g.name, g.Desc(), g.ranks)
	l.sends, l.recvs = make([]string, g.size+1), make([]string, g.size+1)
	l.unit = colligo.Of(make([]float32, 1))
	l.timing.Store(g.config.Watch.Timing == On)
}

// ownContext marks the calls under a context as those of pg itself, which are not recorded and not counted.
type ownContext struct{ context.Context }

type ownKey struct{}

// Value tells that the call is pg's own.
func (c *ownContext) Value(key any) any {
	if key == (ownKey{}) {
		return c
	}
	return c.Context.Value(key)
}

func asOwn(ctx context.Context) context.Context { return &ownContext{ctx} }

func isOwn(ctx context.Context) bool { return ctx != nil && ctx.Value(ownKey{}) != nil }

// admit gives a call its numbers and records it, with its callers but the first skip and those that the request tells.
// The caller holds g.mu.
func (g *Group) admit(r *request, limit time.Duration, skip int) {
	if r.rec.own {
		return
	}
	r.rec.kind, r.rec.bytes = r.opType(), r.volume()
	l := &g.ledger
	if l.calls++; r.rec.kind.P2P() {
		l.pairs++
	} else {
		l.coll++
	}
	g.enter(r, limit, skip+r.rec.skip+1)
}

// enter records a call that has its numbers, with its callers but the first skip.
func (g *Group) enter(r *request, limit time.Duration, skip int) {
	l, rec := &g.ledger, &r.rec
	rec.counts, rec.called = l.counts, time.Now()
	l.pending.add()
	if l.recorder == nil {
		rec.id = -1
		return
	}
	op := flight.Op{PG: l.number, Seq: l.coll, P2PSeq: l.pairs, OpID: l.calls, Name: g.flightName(r, rec.kind),
		P2P: rec.p2p(), Timeout: limit, Created: rec.called}
	g.recorded(&op, r, rec.kind)
	rec.id = l.recorder.Add(&op, skip+1)
	if l.in[0].Valid() || l.out[0].Valid() {
		l.in[0], l.out[0] = colligo.Tensor{}, colligo.Tensor{}
	}
}

// begin notes that an operation is on its way.
func (l *ledger) begin(rec *record) {
	if !rec.own {
		l.beginAt(rec, time.Now())
	}
}

func (l *ledger) beginAt(rec *record, now time.Time) {
	rec.began = now
	l.recorder.StartAt(rec.id, rec.began)
}

// conclude notes how an operation has ended: in the recorder, in the metrics, and for the hooks.
func (g *Group) conclude(rec *record, err error) {
	if rec.own {
		return
	}
	if rec.ended.IsZero() {
		rec.ended = time.Now()
	}
	g.ledger.note(rec, err, g.ledger.hooks.any.Load())
	g.ledger.pending.done(1)
}

// note is conclude of a record that tells when the operation has ended; hooks says whether they hear of it.
func (l *ledger) note(rec *record, err error, hooks bool) {
	took := rec.took()
	if err != nil {
		l.recorder.Retire(rec.id)
	} else if l.timing.Load() {
		l.recorder.CompleteAt(rec.id, took, rec.ended)
	} else {
		l.recorder.CompleteAt(rec.id, -1, rec.ended)
	}
	l.metrics.add(rec, took, err)
	if hooks {
		l.hooks.put(heard{WorkInfo: rec.info(took, err)})
	}
}

// flightName returns an operation's name in a dump. Those of sends and receives are made once for each peer. The caller
// holds g.mu.
func (g *Group) flightName(r *request, kind OpType) string {
	switch {
	case r.title != "":
		return r.title
	case kind == OpAllGather && r.counts != nil:
		return "nccl:ALLGATHER_coalesced"
	case kind == OpReduceScatter && r.counts != nil:
		return "nccl:REDUCE_SCATTER_coalesced"
	case !kind.P2P():
		return opNames[kind].flight
	}
	names, arrow := g.ledger.sends, "->"
	if r.coll == plan.Recv {
		names, arrow = g.ledger.recvs, "<-"
	}
	name := &names[1+r.peer] // anyPeer is -1, which what reads dumps takes for a number too
	if *name == "" {
		*name = fmt.Sprintf("%s %d%s%d", opNames[kind].flight, g.rank, arrow, r.peer)
	}
	return *name
}

// recorded puts the tensors of a call into the recorder's operation as c10d has them: lists that it flattens are one
// tensor. What reads dumps compares the ranks' inputs and outputs, and expects some of both: of uneven calls those are
// recorded that are the same on all ranks. It counts an all-to-all's first tensors only, so that lists are one there too.
func (g *Group) recorded(o *flight.Op, r *request, kind OpType) {
	in, out := &g.ledger.in, &g.ledger.out
	o.In, o.Out = r.inputs(in), r.outputs(out)
	switch {
	case kind == OpBarrier:
		in[0] = g.ledger.unit
		o.In, o.Out = in[:], in[:]
	case kind == OpAllGather && r.counts != nil:
		o.In = o.Out
	case kind == OpAllGather:
		o.Out = one(out, flat(o.Out))
	case kind == OpReduceScatter && r.counts != nil:
		o.Out = o.In
	case kind == OpReduceScatter:
		o.In = one(in, flat(o.In))
	case kind == OpGather && r.counts != nil:
		o.In = partsOf(r.counts, o.In[0].DType())
	case kind == OpScatter && r.counts != nil:
		o.Out = partsOf(r.counts, o.Out[0].DType())
	case kind == OpAllToAll:
		o.In, o.Out = one(in, flat(o.In)), one(out, flat(o.Out))
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

// inputs returns the tensors that were called with, in room where it is one. What c10d does in place is input and output.
func (r *request) inputs(room *[1]colligo.Tensor) []colligo.Tensor {
	switch {
	case r.src.Valid():
		return one(room, r.src)
	case r.ins != nil:
		return r.ins
	case r.keep[0] != nil:
		return r.keep[0]
	case r.coll == plan.Broadcast || r.coll == plan.Recv:
		return one(room, r.dst)
	}
	return nil
}

// outputs returns the tensors in which the results will be.
func (r *request) outputs(room *[1]colligo.Tensor) []colligo.Tensor {
	switch {
	case r.dst.Valid():
		return one(room, r.dst)
	case r.outs != nil:
		return r.outs
	case r.keep[1] != nil:
		return r.keep[1]
	case r.coll == plan.Broadcast || r.coll == plan.Reduce || r.coll == plan.Send:
		return one(room, r.src)
	}
	return nil
}

func one(room *[1]colligo.Tensor, t colligo.Tensor) []colligo.Tensor {
	room[0] = t
	return room[:]
}

// Recorder returns the flight recorder of all groups of this group's Init, nil if it is off.
func (g *Group) Recorder() *flight.Recorder {
	if g == nil {
		return nil
	}
	return g.ledger.recorder
}

// Dump returns what the flight recorder remembers of all groups of this group's Init, and why those have failed that have.
// c10d: _dump_nccl_trace.
func (g *Group) Dump(o flight.DumpOptions) *flight.Dump {
	d := g.Recorder().Dump(o)
	if g != nil && g.job != nil {
		d.Failures = g.job.open.failures()
	}
	return d
}

// SetTiming switches the measuring of durations on devices, and with it durations in dumps. That of operations on the CPU is
// always known. c10d: _enable_collectives_timing.
func (g *Group) SetTiming(on bool) {
	if g != nil {
		g.ledger.timing.Store(on)
	}
}
