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
	"github.com/colligo-go/colligo/plan"
)

// fingerprint is what a rank calls, as the other ranks compare it at debug level DETAIL.
type fingerprint struct {
	Coll    string
	Op      string `json:",omitempty"` // of collectives that reduce
	Root    int    `json:",omitempty"`
	Tensors int
	DType   string `json:",omitempty"`
	Device  string `json:",omitempty"` // kind of device
	Shape   string `json:",omitempty"` // of the tensors that all ranks have; empty where they may differ
}

// aspects are what two fingerprints can differ in.
var aspects = []struct {
	name string
	only bool // between calls of the same collective
	of   func(f *fingerprint) string
}{
	{"collective", false, func(f *fingerprint) string { return f.Coll }},
	{"reduction", true, func(f *fingerprint) string { return f.Op }},
	{"root", true, func(f *fingerprint) string { return fmt.Sprint(f.Root) }},
	{"number of tensors", false, func(f *fingerprint) string { return fmt.Sprint(f.Tensors) }},
	{"element type", false, func(f *fingerprint) string { return f.DType }},
	{"device", false, func(f *fingerprint) string { return f.Device }},
	{"shape", false, func(f *fingerprint) string { return f.Shape }},
}

// fingerprint makes a request's.
func (r *request) fingerprint() *fingerprint {
	f := &fingerprint{Coll: r.coll.String()}
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
	of     []*fingerprint // by rank
	absent int
	full   chan struct{} // closed when none is absent
}

// maxMeetings bounds what peers can make a rank remember; it is that far that operations on devices may be ahead.
const maxMeetings = 256

// put takes a rank's fingerprint and returns its meeting, nil if there is none for it.
func (p *prints) put(size, rank int, seq uint64, f *fingerprint) *meeting {
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
		m = &meeting{make([]*fingerprint, size), size, make(chan struct{})}
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

// compare says in what ranks differ, and who they are.
func (m *meeting) compare() error {
	var all []string
	for _, a := range aspects {
		if a.only && len(all) > 0 {
			continue // of different collectives it says nothing
		}
		if sides := m.sides(a.of); len(sides) > 1 {
			all = append(all, fmt.Sprintf("%s: %s", a.name, strings.Join(sides, ", ")))
		}
	}
	if all == nil {
		return nil
	}
	return &classed{fmt.Errorf("ranks differ in %s", strings.Join(all, "; ")), colligo.ErrMismatch}
}

// sides lists who says what of one aspect, in the order of their first ranks.
func (m *meeting) sides(of func(*fingerprint) string) []string {
	by, order := map[string][]int{}, []string(nil)
	for rank, f := range m.of {
		v := of(f)
		if by[v] == nil {
			order = append(order, v)
		}
		by[v] = append(by[v], rank)
	}
	sides := make([]string, len(order))
	for i, v := range order {
		sides[i] = rankList(by[v]) + " " + cmp.Or(v, "none")
	}
	return sides
}
