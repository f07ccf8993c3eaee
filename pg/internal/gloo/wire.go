package gloo

import (
	"errors"
	"fmt"
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
	mesh       *links.Mesh
	tag        uint32 // of the next collective
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

// New returns the wire of a group whose ranks are linked.
func New(rank, size int, v Version, mesh *links.Mesh) *Wire {
	return &Wire{rank: rank, size: size, version: v, mesh: mesh}
}

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

// Begin implements host.Wire. A plan has one tag for each lane.
func (w *Wire) Begin(o *op.Op) (host.Start, error) {
	if o.Monitored() != op.NotMonitored {
		return w.beginMonitored(o)
	}
	s := w.schedule(o)
	shape := plan.Shape{Coll: o.Coll, Rank: w.rank, Size: w.size, Root: int(o.Root), Count: o.Count, Elem: o.Elem(),
		Counts: o.Rare().Counts, RecvCounts: o.Rare().Recvs}
	if o.Coll == plan.AllGather { // whose halves may cut an element
		shape.Count, shape.Elem = o.Count*o.Elem(), 1
	}
	p, err := s.plan(shape)
	if err != nil {
		return host.Start{}, err
	}
	start := host.Start{Plan: p, Port: &w.port}
	if o.Coll.Reduces() {
		if start.Kernel, err = kernels.LookupStd(o.DType, o.Reduce); err != nil {
			return host.Start{}, err
		}
	}
	first := w.tag
	w.tag += uint32(len(p.Lanes))
	slots := func(lane, _ int) uint64 { return links.Slot(s.prefix, first+uint32(lane)) }
	return start, w.port.start(w.mesh, p, slots)
}

// Poll implements host.Wire.
func (w *Wire) Poll() error { return classify(w.mesh.Poll()) }

// Clear implements host.Wire: a message that nothing has asked for is not sent, so none is in the way.
func (w *Wire) Clear() bool { return false }

// Wait implements host.Mesh.
func (w *Wire) Wait(idle int, until time.Time) { w.mesh.Wait(idle, until) }

// Wake implements host.Mesh.
func (w *Wire) Wake() { w.mesh.Wake() }

// String names the medium.
func (w *Wire) String() string { return "gloo" }

// Link returns no link: nothing here goes in frames.
func (w *Wire) Link(int) transport.Link { return nil }

// errNoNotes is why there is no control channel.
var errNoNotes = errors.New("Gloo has no control channel")

// Notify sends nothing.
func (w *Wire) Notify(int, []byte) error { return errNoNotes }

// Abort ends all connections at once, by which peers learn that this rank has failed.
func (w *Wire) Abort() { w.mesh.Abort() }

// Close ends the connections after what was sent.
func (w *Wire) Close() error { return w.mesh.Close() }

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
