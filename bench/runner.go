package main

import (
	"context"
	"fmt"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/pg"
)

// runner is one rank's progress through the cases.
type runner struct {
	*options
	group  *pg.Group
	env    *environment
	report *report // empty but on rank 0
	wrong  int64   // elements of this rank so far
	agree  []int64
}

// sizes runs a case over all sizes.
func (r *runner) sizes(ctx context.Context, c testCase, v *variant) error {
	last := -1
	for _, bytes := range r.options.sizes(c.collective) {
		count, shown := c.shape(bytes, c.dtype.Size(), r.ranks)
		if shown == last || !v.measures(c, r.keyOf(c, count, shown)) {
			continue // two sizes that round up to the same, or none of the variant's
		}
		last = shown
		if err := r.one(ctx, c, count, shown); err != nil {
			return fmt.Errorf("%s of %s: %w", c.name, formatSize(shown), err)
		}
	}
	return nil
}

// keyOf returns the bytes that the tables ask for: on GPUs those of a rank's part.
func (o *options) keyOf(c testCase, count, shown int) int {
	if o.device == onCUDA {
		return count * c.dtype.Size()
	}
	return shown
}

// one measures, checks and reports one size of a case.
func (r *runner) one(ctx context.Context, c testCase, count, bytes int) error {
	r.report.begin(c, bytes)
	b := &binding{group: r.group, testCase: c, pattern: newPattern(c, r.ranks), root: r.root, count: count, memory: r.env}
	t := c.bind(b)
	if err := t.fill(); err != nil {
		return err
	}
	done, theirs, err := r.time(ctx, b, t)
	if err != nil {
		return err
	}
	wrong, err := r.check(ctx, b, t, theirs != nil)
	if err != nil {
		return err
	}
	took, wrong, err := r.collect(ctx, done, wrong)
	if err != nil {
		return err
	}
	row := row{c, count, bytes, timingOf(done, took, r.gpu() || r.env.external != nil), nil, wrong}
	if theirs != nil {
		if took, _, err = r.collect(ctx, theirs, 0); err != nil {
			return err
		}
		their := timingOf(theirs, took, true)
		row.baseline = &their
	}
	if r.group.Rank() != 0 {
		return nil
	}
	return r.report.row(row)
}

func (r *runner) gpu() bool { return r.env.gpu != nil }

// time returns this rank's batches. It returns the batches of the compared library, too, where the library has the operation.
func (r *runner) time(ctx context.Context, b *binding, t trial) (own, theirs []batch, err error) {
	if r.env.external != nil {
		return r.byTurns(ctx, b, t)
	}
	if !r.gpu() {
		m := &meter{group: r.group, call: t.call, agree: r.fromRoot}
		own, err = m.measure(ctx, r.options)
		return own, nil, err
	}
	contenders := []*contender{{call: t.call}}
	if r.env.baseline != nil && b.hasBaseline() {
		contenders = append(contenders, &contender{call: r.env.baseline.call(b, t)})
	}
	m := &race{options: r.options, group: r.group, gpu: r.env.gpu, agree: r.fromRoot, host: b.coll == barrier}
	if err := m.run(ctx, contenders); err != nil {
		return nil, nil, err
	}
	if len(contenders) > 1 {
		theirs = contenders[1].done
	}
	return contenders[0].done, theirs, nil
}

// check returns how many elements of one result on this rank are wrong. A library that is compared has to have the right
// result, too, or it was not the same operation that took its time.
func (r *runner) check(ctx context.Context, b *binding, t trial, baseline bool) (int64, error) {
	if !r.verify {
		return 0, nil
	}
	wrong, err := once(ctx, t, t.call)
	r.wrong += wrong
	if err == nil && baseline && len(r.externalRanks()) > 0 {
		return wrong, r.env.external.right(b)
	}
	if err != nil || !baseline || r.env.external != nil || !b.sameResult() {
		return wrong, err
	}
	call := r.env.baseline.call(b, t)
	theirs, err := once(ctx, t, func(ctx context.Context) error {
		return r.env.gpu.onDevice(func(cuda.Thread) error { return call(ctx) })
	})
	if err == nil && theirs > 0 {
		err = fmt.Errorf("%v has %d %w on rank %d", r.env.baseline, theirs, errWrong, r.group.Rank())
	}
	return wrong, err
}

// externalRanks returns the processes of the library that is compared, on rank 0.
func (r *runner) externalRanks() []*remote {
	if r.env.external == nil {
		return nil
	}
	return r.env.external.ranks
}

// once counts what is wrong after one call.
func once(ctx context.Context, t trial, call func(ctx context.Context) error) (int64, error) {
	if err := t.fill(); err != nil {
		return 0, err
	}
	if err := call(ctx); err != nil {
		return 0, err
	}
	return t.wrong()
}

// fromRoot returns rank 0's number on all ranks.
func (r *runner) fromRoot(ctx context.Context, n int64) (int64, error) {
	r.agree = append(r.agree[:0], n)
	err := r.group.Broadcast(ctx, colligo.Of(r.agree), 0)
	return r.agree[0], err
}

// collect brings all ranks' times to rank 0, and the sum of their wrong elements.
func (r *runner) collect(ctx context.Context, done []batch, wrong int64) ([][]int64, int64, error) {
	mine := make([]int64, 0, len(done)+1)
	for _, b := range done {
		mine = append(mine, int64(b.took))
	}
	mine = append(mine, wrong)
	var took [][]int64
	var outs []colligo.Tensor
	if r.group.Rank() == 0 {
		for range r.ranks {
			took = append(took, make([]int64, len(mine)))
			outs = append(outs, colligo.Of(took[len(took)-1]))
		}
	}
	if err := r.group.Gather(ctx, outs, colligo.Of(mine), 0); err != nil {
		return nil, 0, err
	}
	var sum int64
	for _, t := range took {
		sum += t[len(done)]
	}
	return took, sum, nil
}
