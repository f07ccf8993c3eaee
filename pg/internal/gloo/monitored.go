package gloo

import (
	"encoding/binary"

	"github.com/colligo-go/colligo/pg/internal/host"
	"github.com/colligo-go/colligo/pg/internal/op"
	"github.com/colligo-go/colligo/plan"
	links "github.com/colligo-go/colligo/transport/gloo"
)

// beginMonitored plans a half of a monitored barrier. In the first every rank sends its number to rank 0; in the second rank 0
// sends its own to all. Each has a tag, and slots of messages between two ranks.
func (w *Wire) beginMonitored(o *op.Op, start *host.Start) error {
	p := &plan.Plan{Algo: "gloo_monitored", Shape: plan.Shape{Coll: plan.Barrier, Rank: w.rank, Size: w.size, Elem: 4}, Scratch: w.size}
	own := plan.Span{Buf: plan.In, Len: 1}
	from := func(r int) plan.Step { return plan.RecvFrom(r, plan.Span{Buf: plan.Scratch, Off: r, Len: 1}) }
	answers := o.Monitored() == op.Answer
	switch {
	case w.rank != 0 && answers:
		p.Lanes = [][]plan.Step{{from(0)}}
	case w.rank != 0:
		p.Lanes = [][]plan.Step{{plan.SendTo(0, own)}}
	default: // a lane for each rank, so that all that are missing can be named
		for r := 1; r < w.size; r++ {
			s := from(r)
			if answers {
				s = plan.SendTo(r, own)
			}
			p.Lanes = append(p.Lanes, []plan.Step{s})
		}
	}
	tag := w.tag
	slot := links.Slot(0, tag)
	w.tag++
	context := func(uint32) *links.Mesh { return w.of(tag) } // all lanes are of one tag
	in := binary.LittleEndian.AppendUint32(nil, uint32(w.rank))
	start.Plan, start.Port, start.In = p, &w.port, in
	return w.port.start(context, tag, p, func(int, int) uint64 { return slot })
}
