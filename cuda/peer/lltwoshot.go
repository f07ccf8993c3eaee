package peer

import (
	"github.com/colligo-go/colligo/kernels/ptx"
	"github.com/colligo-go/colligo/plan"
)

// LLTwoShot is an all-reduce by LL in two steps: each rank reduces its part, then spreads it. With B bytes and n ranks each
// rank stores 4(n-1)/n·B.
const LLTwoShot Algorithm = "ll-twoshot"

var llTwoShot = &algorithm{
	name:   LLTwoShot,
	source: "LLTwoShot",
	forms:  forms{plan.AllReduce: {fits: fitsLLTwoShot, launch: allReduceLLTwoShot}},
}

var llTwoShotAllReduce = foldEntryOf(ptx.LLFamily, ptx.AllReduceLLTwoShot)

// fitsLLTwoShot reports whether both steps have room in a slot, and whether every rank has a part.
func fitsLLTwoShot(x *launcher, o *operation) bool {
	return o.part <= x.layout.LLSlot/4 && o.bytes > (x.size-1)*o.part
}

func allReduceLLTwoShot(x *launcher, o *operation) error {
	return reduceLL(x, o, llTwoShotAllReduce, o.part*(x.size-1))
}
