package gloo

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/gloo"
	"github.com/colligo-go/colligo/kernels"
	"github.com/colligo-go/colligo/pg/internal/diagnose"
	"github.com/colligo-go/colligo/pg/internal/host"
	"github.com/colligo-go/colligo/pg/internal/op"
	"github.com/colligo-go/colligo/plan"
	transport "github.com/colligo-go/colligo/transport"
	links "github.com/colligo-go/colligo/transport/gloo"
)

// Wire carries the operations of one group.
type Wire struct {
	rank, size int
	version    Version
	contexts   []*links.Mesh
	tag        uint32 // of the next collective
	sparse     uint32 // the tag of the collective before
	port       port
}

var (
	_ host.Wire      = (*Wire)(nil)
	_ transport.Mesh = (*Wire)(nil)
)

// The prefixes of slots, by collective.
const (
	prefixGather    = 1
	prefixAllGather = 2
	prefixReduce    = 3
	prefixAllReduce = 4
	prefixScatter   = 5
	prefixBroadcast = 6
	prefixBarrier   = 7
	prefixAllToAll  = 8
)

// New returns the wire of a group whose ranks are linked, in one context or in several.
func New(rank, size int, v Version, contexts []*links.Mesh) *Wire {
	return &Wire{rank: rank, size: size, version: v, contexts: contexts}
}

// of returns the context of a tag.
func (w *Wire) of(tag uint32) *links.Mesh { return w.contexts[tag%uint32(len(w.contexts))] }

// schedule is how a collective is carried out: by which planner, and on slots of which prefix.
type schedule struct {
	plan   plan.Planner
	prefix uint8
}

func (w *Wire) schedule(o *op.Op) schedule {
	switch o.Coll {
	case plan.AllReduce:
		return schedule{gloo.AllReduce, prefixAllReduce}
	case plan.Reduce:
		return schedule{gloo.Reduce, prefixReduce}
	case plan.Broadcast:
		return schedule{gloo.Broadcast, prefixBroadcast}
	case plan.AllGather:
		if w.again(o) {
			return schedule{gloo.AllGatherV, prefixAllGather}
		}
		return schedule{gloo.AllGather, prefixAllGather}
	case plan.Gather:
		return schedule{gloo.Gather, prefixGather}
	case plan.Scatter:
		return schedule{gloo.Scatter, prefixScatter}
	case plan.AllToAll:
		return schedule{gloo.AllToAll, prefixAllToAll}
	case plan.ReduceScatter:
		if o.Type() == op.ReduceScatter {
			return schedule{gloo.ReduceScatterList, prefixAllReduce}
		}
		return schedule{gloo.ReduceScatter, prefixAllReduce}
	}
	return schedule{gloo.Barrier, prefixBarrier}
}

// again reports whether a collective is a later part of a sparse all_reduce, which has the tag of its first part.
func (w *Wire) again(o *op.Op) bool {
	return o.Type() == op.AllReduceSparse && o.Coll == plan.AllGather && o.Rare().Outs != nil
}

// Begin implements host.Wire. A plan has one tag for each lane.
func (w *Wire) Begin(o *op.Op, start *host.Start) error {
	if o.Monitored() != op.NotMonitored {
		return w.beginMonitored(o, start)
	}
	s := w.schedule(o)
	shape := plan.Shape{Coll: o.Coll, Rank: w.rank, Size: w.size, Root: int(o.Root), Count: o.Count, Elem: o.Elem(),
		Counts: o.Rare().Counts, RecvCounts: o.Rare().Recvs}
	if o.Coll == plan.AllGather && !w.again(o) { // whose halves may cut an element
		shape.Count, shape.Elem = o.Count*o.Elem(), 1
	}
	p, err := s.plan(shape)
	if err != nil {
		return err
	}
	start.Plan, start.Port = p, &w.port
	if err := reduces(start, o); err != nil {
		return err
	}
	first := w.tag
	if w.again(o) {
		first = w.sparse
	} else {
		w.tag += uint32(len(p.Lanes))
		w.sparse = first
	}
	slots := func(lane, _ int) uint64 { return links.Slot(s.prefix, first+uint32(lane)) }
	return w.port.start(w.of, first, p, slots)
}

// reduces sets the kernels of a collective that reduces. For an average, sums travel, and each rank divides its result: a rank of
// PyTorch does the same.
func reduces(s *host.Start, o *op.Op) error {
	if !o.Coll.Reduces() {
		return nil
	}
	kind := o.Reduce
	if kind == colligo.KindAvg {
		average, err := kernels.LookupStd(o.DType, kind)
		if err != nil {
			return err
		}
		kind, s.Finish = colligo.KindSum, average
	}
	k, err := kernels.LookupStd(o.DType, kind)
	s.Kernel = k
	return err
}

// Poll implements host.Wire.
func (w *Wire) Poll() error {
	for _, m := range w.contexts {
		if err := m.Poll(); err != nil {
			return classify(err)
		}
	}
	return nil
}

// Clear implements host.Wire: a message that nothing has asked for is not sent, so none is in the way.
func (w *Wire) Clear() bool { return false }

// Withdraw implements host.Wire.
func (w *Wire) Withdraw() {
	for _, m := range w.contexts {
		m.Withdraw()
	}
}

// Wait implements host.Mesh.
func (w *Wire) Wait(idle int, until time.Time) {
	for _, m := range w.contexts[1:] {
		if m.Relieve() {
			return
		}
	}
	w.contexts[0].Wait(idle, until)
}

// Wake implements host.Mesh.
func (w *Wire) Wake() { w.contexts[0].Wake() }

// String names the medium.
func (w *Wire) String() string { return "gloo" }

// Link returns no link: nothing here goes in frames.
func (w *Wire) Link(int) transport.Link { return nil }

// errNoNotes is why there is no control channel.
var errNoNotes = errors.New("a group over Gloo has no control channel")

// Notify sends nothing.
func (w *Wire) Notify(int, []byte) error { return errNoNotes }

// Abort ends all connections at once, by which peers learn that this rank has failed.
func (w *Wire) Abort() {
	for _, m := range slices.Backward(w.contexts) {
		m.Abort()
	}
}

// Close ends the connections after what was sent.
func (w *Wire) Close() error {
	var err error
	for _, m := range slices.Backward(w.contexts) {
		err = errors.Join(err, m.Close())
	}
	return err
}

// classify gives an error of the links its sentinel.
func classify(err error) error {
	var m *links.Mismatch
	switch {
	case err == nil:
		return nil
	case errors.As(err, &m):
		return diagnose.WithClass(fmt.Errorf("%w: the ranks have called other things", err), colligo.ErrMismatch)
	case errors.Is(err, links.ErrProtocol):
		return diagnose.WithClass(err, colligo.ErrCorrupt)
	}
	return err
}
