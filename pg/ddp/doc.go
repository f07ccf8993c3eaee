// Package ddp keeps the gradients of data-parallel training the same on all ranks. It does the work of the reducer inside
// PyTorch's DistributedDataParallel, without autograd. The caller computes gradients by any means and says when each is
// there. The reducer gathers them in buckets. It reduces a bucket as soon as it is full, while the caller computes the next.
//
//	r, err := ddp.New(ctx, g, params, ddp.Options{})
//	for each step:
//		for i := len(params) - 1; i >= 0; i-- { // in any order
//			compute the gradient of params[i]
//			err = r.Ready(ctx, i)
//		}
//		err = r.Finish(ctx) // now every gradient is the mean over all ranks
//
// Invariants, numbered so that code and tests can cite them:
//
//  1. Buckets are reduced in their order on every rank, whatever the order in which gradients become ready. So the ranks
//     call the same collectives.
//  2. Functions that a hook chains to a reduction run in Finish, bucket after bucket. So the collectives that they call are
//     in order, too.
//  3. After Finish the gradients are bitwise the same on all ranks, if the hook's result is.
//  4. A step in which a gradient is missing, or ready twice, is an error that names the parameter. The step is lost, and the
//     next finds buckets that nothing works on any more. Where other ranks go on with it the group fails: no step is mixed
//     with another.
//  5. A Reducer is used by one goroutine.
//
// The package computes on the CPU only where a hook compresses. Gradients on a device are moved by the Memory that the
// caller gives, or not at all where they are views of the buckets.
package ddp
