package peer

import (
	"context"
	"unsafe"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/kernels/ptx"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/plan"
)

// even launches a collective of small tensors if it is what most are: one tensor holds all parts, each as long, of whole lines at
// multiples of 16. Its kernels and its host have less to do then. Where this rank's tensors lie only this rank knows; its peers
// may go the general way.
func (b *backend) even(ctx context.Context, t cuda.Thread, c *pg.Call, s cuda.Stream) (launched bool, err error) {
	if c.Counts != nil || c.RecvCounts != nil || c.Ins != nil || c.Outs != nil || b.size == 1 {
		return false, nil
	}
	a, bytes := &b.args.even, c.Count*c.DType.Size()
	in, out := addressOf(c.In), addressOf(c.Out)
	if bytes == 0 || bytes > b.layout.llSlot/2 || (bytes|int(in|out))%16 != 0 {
		return false, nil
	}
	a.In, a.Out, a.Part, a.Step = uint64(in), uint64(out), uint64(bytes), uint64(bytes)
	switch c.Coll {
	case plan.ReduceScatter:
		return b.evenSum(ctx, t, c, bytes, s)
	case plan.AllGather:
		a.Step = 0
	case plan.AllToAll:
	default:
		return false, nil
	}
	rule := b.pickFor(c.Coll, bytes, b.window(out, c.Out.Size()), out)
	if rule.Algorithm != LL {
		return false, nil
	}
	return true, b.code.launch(t, b.code.move.exchangeLLEven, rule.threadGrid(bytes), unsafe.Pointer(a), s)
}

// evenSum is even for a reduce_scatter. Its table is the general one's, which knows no registered tensors.
func (b *backend) evenSum(ctx context.Context, t cuda.Thread, c *pg.Call, bytes int, s cuda.Stream) (launched bool, err error) {
	rule := b.pick(c.Coll, bytes)
	if rule.Algorithm != LL || c.Op.Kind() == colligo.KindPremulSum {
		return false, nil
	}
	r, err := b.reducers(ctx, t, c.DType, c.Op.Kind(), ptx.LLFamily)
	if err != nil {
		return false, err
	}
	a := &b.args.even
	a.Divisor = b.divisor(c.Op)
	return true, b.code.launch(t, r.scatterLLEven, rule.llGrid(bytes, b.multiprocessors), unsafe.Pointer(a), s)
}
