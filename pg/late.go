package pg

import (
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/internal/diagnose"
	"github.com/colligo-go/colligo/plan"
)

// timedOut fails the group because an operation took too long, with a line that says why and the ranks at fault.
func (g *Group) timedOut(op *operation) {
	got := g.control.Ask()
	if g.Err() != nil {
		return // a peer has told the cause in the meantime, and may have gone without an answer
	}
	if g.config.Watch.Desync == On {
		g.logDesync(got)
	}
	report := diagnose.Explain(g.lateCall(op), g.control.Here(), got)
	cause := report.Err()
	if report.Class == colligo.ErrTimeout {
		cause = &suspected{cause, report.Suspects}
	}
	e := &colligo.OpError{Group: g.name, Op: op.coll.String(), Seq: numberOf(op.sequence()), What: op.what(), Rank: g.rank,
		Peer: colligo.NoRank, Lane: colligo.NoRank, Step: colligo.NoRank, Err: cause}
	op.late = e
	g.fail(e, true)
}

// lateCall describes an operation for package diagnose.
func (g *Group) lateCall(op *operation) *diagnose.Operation {
	o := &diagnose.Operation{Rank: g.rank, Size: g.size, Coll: op.coll, Seq: op.seq, Call: describe(g.call(op)),
		After: op.deadline.Sub(op.began).Round(time.Millisecond).String(), Device: op.device.Kind != colligo.CPU, Peer: op.peer, Tag: op.tag}
	if op.coll == plan.Recv && !o.Device { // of a receive on a device another goroutine may own the unexpected messages
		o.Unexpected = g.stash.others(op.peer)
	}
	return o
}

// logDesync logs one line for each peer: where it is, or that it does not answer.
func (g *Group) logDesync(got diagnose.Snapshots) {
	for peer := range g.size {
		if peer == g.rank {
			continue
		}
		s, ok := got[peer]
		does := "does not answer"
		if ok {
			does = s.Doing()
		}
		g.log.Warn("where a rank is", "group", g.name, "rank", g.rank, "seq", numberOf(s.Seq), "peer", peer, "entered", s.Call, "does", does)
	}
}
