// The entry point that reduces on one device. The file is compiled for each element type and kind, with ELEMENT, OP and WORD set.
#include "localreduce.h"

// reduce_two folds two sources into the output. localreduce.h has the steps.
KERNEL void reduce_two(ReduceArgs a) {
	SHARED ByPeerIndex in;
	reduce<2, unrolled ? 4 : 1>(a, in);
}
