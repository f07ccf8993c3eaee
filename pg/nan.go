package pg

import (
	"context"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/backend"
	"github.com/colligo-go/colligo/pg/internal/op"
	"github.com/colligo-go/colligo/plan"
)

// refuseNaN fails the group if what a call sends holds a NaN. Ranks that only receive send none.
func (g *Group) refuseNaN(ctx context.Context, o *op.Op) error {
	if o.Own || !o.DType.Float() && !o.DType.Complex() || o.Coll == plan.Barrier {
		return nil
	}
	var found *op.NaN
	var err error
	if o.OnCPU() {
		found = o.FindNaN()
	} else {
		found, err = (*onDevice)(g).findNaN(ctx, o)
	}
	if err == nil && found != nil {
		err = found
	}
	if err == nil {
		return nil
	}
	g.state.mu.Lock()
	next := g.state.seq
	if o.Coll != plan.Send {
		next = next.Next(true)
	}
	g.state.mu.Unlock()
	err = g.explain(o, next, err, false)
	g.fail(err, true)
	return err
}

func (c *onDevice) findNaN(ctx context.Context, o *op.Op) (*op.NaN, error) {
	g := (*Group)(c)
	in := o.Sent()
	if len(in) == 0 {
		return nil, nil
	}
	b, err := c.opened(ctx, o.DeviceID())
	if err != nil {
		return nil, err
	}
	reader, ok := b.(backend.Reader)
	if !ok {
		g.log.Debug("the backend finds no NaN", "group", g.name, "rank", g.rank, "device", o.DeviceID().String())
		return nil, nil
	}
	for n, t := range in {
		if i, err := readNaN(ctx, reader, t); i >= 0 || err != nil {
			return &op.NaN{Tensor: n, Index: i, DType: o.DType}, err
		}
	}
	return nil, nil
}

// readNaN returns the index of the first NaN of a tensor on a device, -1 if there is none.
func readNaN(ctx context.Context, from backend.Reader, t colligo.Tensor) (int, error) {
	found, before := -1, 0
	err := from.Read(ctx, t, func(piece []byte) bool {
		if i := op.FirstNaN(piece, t.DType()); i >= 0 {
			found = before + i
		}
		before += len(piece) / t.DType().Size()
		return found < 0
	})
	return found, err
}
