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
	"github.com/colligo-go/colligo/pg/internal/host"
	"github.com/colligo-go/colligo/pg/internal/op"
	"github.com/colligo-go/colligo/plan"
	"github.com/colligo-go/colligo/transport"
)

// fingerprintOf makes the fingerprint of an operation.
func fingerprintOf(o *op.Op) *diagnose.Fingerprint {
	f := &diagnose.Fingerprint{Coll: o.Coll.String()}
	if o.Coll == plan.Barrier {
		return f
	}
	f.DType, f.Device, f.Tensors = o.DType.String(), o.Device.String(), 1
	if o.Coll.Reduces() {
		f.Op = o.Reduce.String()
	}
	if o.Coll.Rooted() {
		f.Root = int(o.Root)
	}
	if n := len(o.Rare().Parts); n > 0 {
		f.Tensors, f.Shape = n, shapes(o)
		return f
	}
	t := o.In
	if !t.Valid() || o.Coll == plan.Scatter || o.Coll == plan.ReduceScatter {
		t = o.Out // on the root of a broadcast it is the input, elsewhere the output
	}
	if o.Rare().Counts == nil && t.Valid() {
		f.Shape = clipShape(fmt.Sprint(t.Shape()))
	}
	if strides := o.Rare().Strides; strides != nil { // which say what elements meet
		f.Shape = clipShape(fmt.Sprint(f.Shape, " strides ", strides))
	}
	return f
}

// shapes prints the shapes of a block's tensors that are the same on every rank. The lengths of all tensors decide which
// elements meet.
func shapes(o *op.Op) string {
	side := o.Rare().Ins // an all_reduce has one side, and so has a broadcast; of an all_gather it is the inputs
	if o.Coll == plan.ReduceScatter {
		side = o.Rare().Outs
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
	return fmt.Sprintf("%s... (%08x)", s[:maxShape], host.ID(s))
}

// agree asks whether all ranks have come to a collective on the CPU, with an error if they do not call the same.
func (e *events) agree(o *op.Op) (bool, error) {
	g := e.g
	check, _ := o.Rare().Check.(*control.Check)
	if check == nil {
		g.enter(o)
		if check = g.control.Check(uint64(o.Seq), fingerprintOf(o)); check == nil {
			return false, errTooFar
		}
		o.More().Check = check
	}
	select {
	case <-check.Full():
		return true, same(&g.control, o.Seq, check)
	default:
		return false, e.departed(check)
	}
}

// departed returns the loss of a rank that has closed the group before a collective, nil if there is none. The rank's fingerprint may come shortly
// after its farewell.
func (e *events) departed(check *control.Check) error {
	g := e.g
	peer := g.control.Absent(check, g.forming.Departed.Left())
	switch {
	case peer == colligo.NoRank:
		return nil
	case check.LeftAt.IsZero():
		check.LeftAt = time.Now()
		time.AfterFunc(leftGrace, g.handler.wake)
		return nil
	case time.Since(check.LeftAt) < leftGrace:
		return nil
	}
	return host.Classify(&transport.PeerError{Peer: peer, Err: transport.ErrGoodbye})
}

// leftGrace is how long the fingerprints of a rank may come after its farewell.
const leftGrace = 100 * time.Millisecond

// same ends the check of a collective to which all ranks have come, with an error if they do not call the same.
func same(c *control.Channel, at op.Seq, check *control.Check) error {
	if says := c.Compare(uint64(at), check); says != "" {
		return diagnose.WithClass(errors.New(says), colligo.ErrMismatch)
	}
	return nil
}

var errTooFar = errors.New("too many operations ahead of the slowest rank")

// agree waits until all ranks have come to a collective on a device, and compares it.
func (c *onDevice) agree(ctx context.Context, o *op.Op) error {
	g := (*Group)(c)
	if o.P2P() {
		return nil
	}
	check := g.control.Check(uint64(o.Seq), fingerprintOf(o))
	if check == nil {
		return errTooFar
	}
	late := *o // whose limit counts from now on, and that of the operation itself when all ranks have come
	late.Clock(time.Now())
	if ctx == nil {
		ctx = context.Background()
	}
	limit := time.NewTimer(time.Until(late.Deadline()))
	defer limit.Stop()
	failed := time.NewTicker(agreeTick)
	defer failed.Stop()
	for {
		select {
		case <-check.Full():
			return same(&g.control, o.Seq, check)
		case <-failed.C:
			if err := g.Err(); err != nil {
				return g.explain(o, o.Seq, err, true)
			}
			if err := (&events{g}).departed(check); err != nil {
				return err
			}
		case <-limit.C:
			return cmp.Or((&events{g}).late(&late, ""), g.Err())
		case <-ctx.Done():
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return context.Cause(ctx)
			}
		}
	}
}

// agreeTick is how often a rank that waits on a device's behalf looks whether the group has failed.
const agreeTick = 10 * time.Millisecond
