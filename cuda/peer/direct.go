package peer

import (
	"context"
	"unsafe"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/kernels/ptx"
)

// reduceDirect goes by tiles whose results are stored in the peers' outputs.
func (b *backend) reduceDirect(ctx context.Context, t cuda.Thread, o *sum, s cuda.Stream) error {
	return b.launchDirect(ctx, t, o, o.bytes, o.part, s)
}

// meetDirect has the ranks meet, and compare which place of registered memory each means: a direct kernel without elements.
func (b *backend) meetDirect(ctx context.Context, t cuda.Thread, o *sum, s cuda.Stream) error {
	return b.launchDirect(ctx, t, o, 0, 16, s)
}

func (b *backend) launchDirect(ctx context.Context, t cuda.Thread, o *sum, bytes, part int, s cuda.Stream) error {
	r, err := b.reducers(ctx, t, o.DType, o.Op.Kind(), ptx.DirectFamily)
	if err != nil {
		return err
	}
	a := &b.args.direct
	a.In, a.Bytes, a.Part, a.Divisor = uint64(o.in), uint64(bytes), uint64(part), b.divisor(o.Op)
	a.Mark = o.window.mark(o.out, o.bytes)
	for q := range b.size {
		a.Outs[b.peerIndex(q)] = uint64(o.window.peerAt(q, o.out))
	}
	var grid cuda.Grid
	grid, a.Tile = b.twoPhaseGrid(&o.rule, part)
	return b.code.launch(t, r.direct, grid, unsafe.Pointer(a), s)
}

// meetPeers has the ranks meet on a stream: what any of them had enqueued before has ended when it goes on. It is an exchange of
// nothing by LL.
func (b *backend) meetPeers(t cuda.Thread, s cuda.Stream) error {
	x := &b.args.exchange
	clear(x.SendBytes[:])
	clear(x.RecvBytes[:])
	return b.code.launch(t, b.code.move.exchangeLL, cuda.Grid{Blocks: 1, Threads: 32 * maxRanks}, unsafe.Pointer(x), s)
}
