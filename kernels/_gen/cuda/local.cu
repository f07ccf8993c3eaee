// The entry points that reduce on one device: compiled for each element type and kind, with ELEMENT, OP and WORD set.
#include "localreduce.h"

KERNEL void reduce_two(ReduceArgs a) {
	SHARED ByPeerIndex in;
	reduce<2, unrolled ? 4 : 1>(a, in);
}
