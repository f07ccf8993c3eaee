// All-reduce behind copy engines: compiled for each element type and kind, with ELEMENT, OP and WORD set.
#include "fold.h"
#include "fused.h"

// Fold adds own lines to those that come, in the order of the ring.
struct Fold {
	static constexpr bool folds = true;
	u32 divisor;
	__attribute__((device, always_inline)) Line operator()(Line own, Line v, bool whole) const {
		Whole sum;
		sum.open(v);
		sum.fold(own);
		return sum.close(whole ? divisor : 0);
	}
};

// all_reduce_fused: sums grow in the output for Size-1 steps, and go round whole for as many.
KERNEL void all_reduce_fused(FusedArgs a) { fused(a, Fold{a.divisor}); }
