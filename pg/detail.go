package pg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/internal/control"
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

// detailed reports whether calls are compared.
func (g *Group) detailed() bool { return g.config.Watch.Debug == DebugDetail && g.size > 1 }

// agreed reports whether all ranks have come to a collective, with an error if they do not call the same. The progress
// engine asks until it is so.
func (g *Group) agreed(op *operation) (bool, error) {
	if op.check == nil {
		g.port.call = g.call(op)
		g.control.Progress.Enter(g.port.call)
		if op.check = g.control.Check(op.seq, op.request.fingerprint()); op.check == nil {
			return false, errTooFar
		}
	}
	select {
	case <-op.check.Full():
		return true, g.same(op.seq, op.check)
	default:
		return false, nil
	}
}

// same ends the check of a collective to which all ranks have come, with an error if they do not call the same.
func (g *Group) same(seq uint64, check *control.Check) error {
	if says := g.control.Compare(seq, check); says != "" {
		return diagnose.WithClass(errors.New(says), colligo.ErrMismatch)
	}
	return nil
}

var errTooFar = errors.New("too many operations ahead of the slowest rank")

// agreeOnDevice waits until all ranks have come to a collective on a device, and compares it.
func (g *Group) agreeOnDevice(ctx context.Context, r *request, seq uint64) error {
	if !g.detailed() || r.coll == plan.Send || r.coll == plan.Recv {
		return nil
	}
	check := g.control.Check(seq, r.fingerprint())
	if check == nil {
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
		case <-check.Full():
			return g.same(seq, check)
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
