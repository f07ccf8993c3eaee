// All-reduce by copy engines with a fused kernel. The file is compiled for each element type and kind, with ELEMENT, OP and WORD
// set.
#include "fold.h"
#include "fused.h"

// Fold adds own lines to the lines that arrive, in the order of the ring. In the first step these are the input of the rank before.
struct Fold {
	static constexpr bool folds = true;
	u32 divisor;
	WeightOfLine by;
	__attribute__((device, always_inline)) Line operator()(Line own, Line v, bool first, bool whole) const {
		Whole sum;
		sum.open(v, first ? by : (WeightOfLine)1);
		sum.fold(own, by);
		return sum.close(whole ? divisor : 0);
	}
};

// all_reduce_fused is a ring all-reduce in 2(size-1) steps:
//   1. size-1 steps: partial sums grow in the output.
//   2. size-1 steps: whole sums go round.
// fused.h has the steps of one slice.
KERNEL void all_reduce_fused(FusedArgs a) { fused(a, Fold{a.divisor, weightOfLines(a.divisor)}); }
