package peer

import (
	"github.com/colligo-go/colligo/kernels/ptx"
	"github.com/colligo-go/colligo/plan"
)

// LL128TwoShot is an all-reduce by LL128 in two steps: each rank reduces its part, then spreads it. With B bytes and n ranks
// each rank stores 16/15·2(n-1)/n·B.
const LL128TwoShot Algorithm = "ll128-twoshot"

var ll128TwoShot = &algorithm{
	name:   LL128TwoShot,
	source: "LL128TwoShot",
	forms:  forms{plan.AllReduce: {fits: fitsLL128TwoShot, launch: allReduceLL128TwoShot}},
}

var ll128TwoShotAllReduce = foldEntryOf(ptx.LL128Family, ptx.AllReduceLL128TwoShot)

// fitsLL128TwoShot reports whether both steps have room in a slot, and whether every rank has a part.
func fitsLL128TwoShot(x *launcher, o *operation) bool {
	return x.linked && o.bytes > (x.size-1)*o.part && 2*ll128Bytes(o.part) <= x.layout.LL128Slot
}

func allReduceLL128TwoShot(x *launcher, o *operation) error {
	return reduceLL128(x, o, ll128TwoShotAllReduce, o.part*(x.size-1))
}
