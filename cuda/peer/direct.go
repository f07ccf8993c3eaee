package peer

import (
	"context"
	"unsafe"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/kernels"
)

// reduceDirect goes by tiles whose results are stored in the peers' outputs; by Copies in the own one, from where the copy
// engines bring them to the peers.
func (b *backend) reduceDirect(ctx context.Context, t cuda.Thread, o *sum, s cuda.Stream) error {
	r, err := b.reducers(ctx, t, o.DType, o.Op.Kind(), kernels.DirectFamily)
	if err != nil {
		return err
	}
	a := &b.args.direct
	a.In, a.Bytes, a.Part, a.Divisor = uint64(o.in), uint64(o.bytes), uint64(o.part), b.divisor(o.Op)
	a.Mark, a.Keep = o.window.mark(o.out, o.bytes), 0
	for q := range b.size {
		a.Outs[b.place(q)] = uint64(o.window.peerAt(q, o.out))
	}
	var grid cuda.Grid
	grid, a.Tile = b.tileGrid(&o.choice, o.part)
	if o.choice.Way == Copies {
		a.Keep = 1
	}
	if err := b.code.launch(t, r.direct, grid, unsafe.Pointer(a), s); err != nil || a.Keep == 0 {
		return err
	}
	return b.copyParts(t, o, s)
}

// copyParts copies this rank's part to one peer after the other, the ranks each to another, and then meets the peers, in an
// exchange of nothing. Where it lands its owner has read the input that was there: the kernel before had it. No copy runs
// beside a kernel: on two H200 that took 4 % more time.
func (b *backend) copyParts(t cuda.Thread, o *sum, s cuda.Stream) error {
	from, to := min(b.rank*o.part, o.bytes), min((b.rank+1)*o.part, o.bytes)
	at := o.out + cuda.Pointer(from)
	for d := 1; d < b.size && to > from; d++ {
		if err := t.Copy(o.window.peerAt((b.rank+d)%b.size, at), at, to-from, s); err != nil {
			return err
		}
	}
	x := &b.args.exchange
	clear(x.SendBytes[:])
	clear(x.RecvBytes[:])
	return b.code.launch(t, b.code.move.exchangePackets, cuda.Grid{Blocks: 1, Threads: 32 * maxRanks}, unsafe.Pointer(x), s)
}
