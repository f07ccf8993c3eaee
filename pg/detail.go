package pg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/internal/diagnose"
	"github.com/colligo-go/colligo/plan"
)

// fingerprint makes a request's.
func (r *request) fingerprint() *diagnose.Fingerprint {
	f := &diagnose.Fingerprint{Coll: r.coll.String()}
	if r.coll == plan.Barrier {
		return f
	}
	f.DType, f.Device, f.Tensors = r.dtype.String(), r.device.Kind.String(), 1
	if r.coll.Reduces() {
		f.Op = r.op.Kind().String()
	}
	if r.coll.Rooted() {
		f.Root = r.root
	}
	if r.members != nil {
		f.Tensors, f.Shape = len(r.members), r.shapes()
		return f
	}
	t := r.src
	if !t.Valid() || r.coll == plan.Scatter || r.coll == plan.ReduceScatter {
		t = r.dst // on the root of a broadcast it is the input, elsewhere the output
	}
	if r.counts == nil && t.Valid() {
		f.Shape = clipShape(fmt.Sprint(t.Shape()))
	}
	return f
}

// shapes prints those of the tensors that operations of a block have on every rank: which of their elements meet is decided
// by the lengths of all.
func (r *request) shapes() string {
	side := r.keep[0] // an all_reduce has one side, and so has a broadcast; of an all_gather it is the inputs
	if r.coll == plan.ReduceScatter {
		side = r.keep[1]
	}
	parts := make([]string, len(side))
	for i, t := range side {
		parts[i] = fmt.Sprint(t.Shape())
	}
	return clipShape(strings.Join(parts, " "))
}

// maxShape is the letters of shapes that are compared; what is longer ends in a hash of the whole.
const maxShape = 1 << 10

func clipShape(s string) string {
	if len(s) <= maxShape {
		return s
	}
	return fmt.Sprintf("%s... (%08x)", s[:maxShape], identity(s))
}

// prints are the fingerprints of the collectives that not all ranks have come to.
type prints struct {
	mu sync.Mutex
	by map[uint64]*meeting
}

// meeting is one collective's.
type meeting struct {
	of     []*diagnose.Fingerprint // by rank
	absent int
	full   chan struct{} // closed when none is absent
}

// maxMeetings bounds what peers can make a rank remember; it is that far that operations on devices may be ahead.
const maxMeetings = 256

// put takes a rank's fingerprint and returns its meeting, nil if there is none for it.
func (p *prints) put(size, rank int, seq uint64, f *diagnose.Fingerprint) *meeting {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.by == nil {
		p.by = map[uint64]*meeting{}
	}
	m := p.by[seq]
	if m == nil {
		if len(p.by) >= maxMeetings {
			return nil
		}
		m = &meeting{make([]*diagnose.Fingerprint, size), size, make(chan struct{})}
		p.by[seq] = m
	}
	if m.of[rank] == nil {
		m.of[rank] = f
		if m.absent--; m.absent == 0 {
			close(m.full)
		}
	}
	return m
}

func (p *prints) forget(seq uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.by, seq)
}

// meet tells the peers what this rank calls. The meeting is full when all have come to the same number: a barrier, on which
// a timeout names who is missing.
func (g *Group) meet(r *request, seq uint64) *meeting {
	f := r.fingerprint()
	m := g.prints.put(g.size, g.rank, seq, f)
	g.tell(note{Kind: notePrint, Seq: seq, Print: f})
	return m
}

// detailed reports whether calls are compared.
func (g *Group) detailed() bool { return g.config.Watch.Debug == DebugDetail && g.size > 1 }

// agreed reports whether all ranks have come to a collective, with an error if they do not call the same. Whoever drives
// asks, until it is so.
func (g *Group) agreed(op *operation) (bool, error) {
	if op.meeting == nil {
		g.port.call = g.call(op)
		g.entered.set(g.port.call)
		if op.meeting = g.meet(&op.request, op.seq); op.meeting == nil {
			return false, errTooFar
		}
	}
	select {
	case <-op.meeting.full:
		g.prints.forget(op.seq)
		return true, op.meeting.compare()
	default:
		return false, nil
	}
}

var errTooFar = errors.New("too many operations ahead of the slowest rank")

// agreeOnDevice waits until all ranks have come to a collective on a device, and compares it.
func (g *Group) agreeOnDevice(ctx context.Context, r *request, seq uint64) error {
	if !g.detailed() || r.coll == plan.Send || r.coll == plan.Recv {
		return nil
	}
	m := g.meet(r, seq)
	if m == nil {
		return errTooFar
	}
	op := &operation{request: *r, seq: seq, began: time.Now(), lease: lease{limit: g.Timeout()}}
	op.deadline = op.began.Add(op.lease.limit)
	if ctx == nil {
		ctx = context.Background()
	}
	if d, ok := ctx.Deadline(); ok {
		op.deadline = d
	}
	limit := time.NewTimer(time.Until(op.deadline))
	defer limit.Stop()
	failed := time.NewTicker(agreeTick)
	defer failed.Stop()
	for {
		select {
		case <-m.full:
			g.prints.forget(seq)
			return m.compare()
		case <-failed.C:
			if err := g.Err(); err != nil {
				return g.explain(r, seq, err, true)
			}
		case <-limit.C:
			g.timedOut(op)
			return cmp.Or(op.late, g.Err())
		case <-ctx.Done():
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return context.Cause(ctx)
			}
		}
	}
}

// agreeTick is how often a rank that waits on a device's behalf looks whether the group has failed.
const agreeTick = 10 * time.Millisecond

// compare returns an error if ranks differ in what they call.
func (m *meeting) compare() error {
	if says := diagnose.Differences(m.of); says != "" {
		return &classed{errors.New(says), colligo.ErrMismatch}
	}
	return nil
}
