package ddp

import (
	"context"
	"errors"
	"fmt"

	"github.com/colligo-go/colligo"
)

// Finish ends a step: it waits for all reductions and brings the results to the gradients. For gradients on a device they
// are there for what the context's stream does next. On an error the step is lost. The next step begins when the reductions
// that this one has started are over. If the context ends before, the next call waits for them. Only then may gradients be
// put into buckets that are viewed.
func (r *Reducer) Finish(ctx context.Context) error {
	err := r.begin(ctx, computes)
	if err != nil {
		return fmt.Errorf("ddp: rank %d: %w", r.g.Rank(), err)
	}
	if err = r.finish(ctx); err == nil {
		r.steps++
	} else {
		err = fmt.Errorf("ddp: rank %d: %w", r.g.Rank(), errors.Join(err, r.abandon(ctx)))
	}
	r.reset()
	return err
}

// abandon ends a lost step. Functions chained to its reductions do not run. Ranks that have lost the step after as many
// reductions meet in a barrier. If other ranks still reduce, they meet that barrier with a reduction, and the group fails.
// Else the next step's buckets would be reduced with this one's.
func (r *Reducer) abandon(ctx context.Context) error {
	for _, b := range r.buckets {
		if b.result != nil {
			r.left = append(r.left, b.result.start())
		}
	}
	meeting := r.g.BarrierAsync(context.WithoutCancel(ctx)) // the context limits how long this rank waits for it, no more
	r.left = append(r.left, After(meeting, colligo.Tensor{}))
	return r.settle(ctx)
}

// settle waits until the reductions of a lost step have left the buckets, which the next step fills. An error of theirs is the
// group's, which is told with the cause or by the next step.
func (r *Reducer) settle(ctx context.Context) error {
	for ; len(r.left) > 0; r.left = r.left[1:] {
		if _, err := r.left[0].Wait(ctx); err != nil && ctx.Err() != nil {
			return fmt.Errorf("the reductions of a lost step, or other ranks that are in it, are still under way: %w", err)
		}
	}
	return nil
}

func (r *Reducer) finish(ctx context.Context) error {
	if err := r.putRecorded(ctx); err != nil {
		return err
	}
	missing := r.Missing()
	if len(missing) > 0 && !r.o.FindUnused && !r.recording() {
		return fmt.Errorf("the step is over without gradients of %d of %d parameters (%s): if they are not used in every step, set FindUnused",
			len(missing), len(r.params), r.names(missing))
	}
	if err := r.fillIn(ctx, missing); err != nil {
		return err
	}
	used, err := r.usedAnywhere(ctx, missing)
	if err != nil {
		return err
	}
	for _, b := range r.buckets {
		if err := r.take(ctx, b, used); err != nil {
			return fmt.Errorf("bucket %d: %w", b.Index, err)
		}
	}
	if err := r.sparse.reduce(ctx, r); err != nil {
		return err
	}
	return r.follow(ctx)
}

// fillIn lets parameters without a gradient count as zeros.
func (r *Reducer) fillIn(ctx context.Context, missing []int) error {
	for _, i := range missing {
		if r.params[i].SparseRows > 0 {
			continue
		}
		at := r.at[i]
		b := r.buckets[at.bucket]
		if !r.o.BucketView {
			g := b.Grads[at.index]
			if err := r.clear(ctx, i, g); err != nil {
				return fmt.Errorf("zeros for %s: %w", r.params[i].Name, err)
			}
		}
		b.pending--
	}
	return r.launch(ctx)
}

// clear makes a gradient in a bucket zero.
func (r *Reducer) clear(ctx context.Context, i int, g colligo.Tensor) error {
	if !r.zeros[i].Valid() {
		z, err := r.o.Memory.Alloc(g.Device(), g.DType(), g.Len())
		if err != nil {
			return err
		}
		r.zeros[i] = z
	}
	return r.o.Memory.Copy(ctx, g, r.zeros[i])
}

// usedAnywhere returns for each parameter whether some rank had its gradient; nil means all.
func (r *Reducer) usedAnywhere(ctx context.Context, missing []int) ([]uint8, error) {
	switch {
	case r.o.StaticGraph && !r.recording():
		return r.uses.anywhere, nil
	case !r.o.FindUnused && !r.o.StaticGraph:
		return nil, nil
	}
	used := make([]uint8, len(r.params))
	for i := range used {
		used[i] = 1
	}
	for _, i := range missing {
		used[i] = 0
	}
	err := r.g.AllReduce(ctx, colligo.Of(used), colligo.Max)
	r.uses.anywhere = used
	return used, err
}

// take brings a bucket's result to its gradients.
func (r *Reducer) take(ctx context.Context, b *Bucket, used []uint8) error {
	t, err := b.result.Wait(ctx)
	if err != nil {
		return err
	}
	if t.Len() != b.Buffer.Len() || t.DType() != b.Buffer.DType() {
		return fmt.Errorf("the hook returned %v for a bucket of %v", t, b.Buffer)
	}
	if t.Addr() != b.Buffer.Addr() {
		if err := r.o.Memory.Copy(ctx, b.Buffer, t); err != nil {
			return err
		}
	}
	if r.o.BucketView {
		return nil
	}
	for i, p := range b.Params {
		if used != nil && used[p] == 0 {
			continue
		}
		if err := r.o.Memory.Copy(ctx, r.params[p].Grad, b.Grads[i]); err != nil {
			return fmt.Errorf("gradient of %s: %w", r.params[p].Name, err)
		}
	}
	return nil
}

// follow makes the buckets anew after the first step, in the order in which rank 0's gradients became ready.
func (r *Reducer) follow(ctx context.Context) error {
	if r.stepped || r.o.BucketView {
		return nil
	}
	r.stepped = true
	var order []int64
	for _, p := range append(r.order, r.Missing()...) {
		if r.params[p].SparseRows == 0 {
			order = append(order, int64(p))
		}
	}
	if len(order) == 0 {
		return nil
	}
	if err := r.g.Broadcast(ctx, colligo.Of(order), r.joining.root); err != nil {
		return fmt.Errorf("order of the gradients: %w", err)
	}
	next, named := make([]int, len(order)), make([]bool, len(r.params))
	for i, p := range order {
		if p < 0 || p >= int64(len(r.params)) || named[p] || r.params[p].SparseRows > 0 {
			return fmt.Errorf("order of the gradients: rank %d names parameter %d of %d: %w", r.joining.root, p, len(r.params), colligo.ErrCorrupt)
		}
		next[i], named[p] = int(p), true
	}
	return r.fill(next)
}

// reset begins the next step.
func (r *Reducer) reset() {
	r.next, r.order, r.begun = 0, r.order[:0], false
	clear(r.ready)
	r.uses.reset()
	r.sparse.reset()
	for _, b := range r.buckets {
		b.pending, b.result = len(b.Params), nil
	}
}
