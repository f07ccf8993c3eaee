package ddp

import (
	"context"
	"slices"
)

// uses are how often parameters are used in a step, of a reducer with a static graph.
type uses struct {
	first    []int   // in the first step, by parameter
	now      []int   // in this step so far, by parameter
	anywhere []uint8 // by parameter: 1 if some rank uses it
}

// recording reports whether the step counts uses: gradients are reduced at its end.
func (r *Reducer) recording() bool { return r.o.StaticGraph && r.steps == 0 }

// last counts a use, and reports whether the gradient is complete with it and can be reduced.
func (u *uses) last(r *Reducer, i int) bool {
	if u.now == nil {
		u.now = make([]int, len(r.params))
	}
	u.now[i]++
	if !r.recording() {
		return u.now[i] == u.first[i]
	}
	if r.ready[i] {
		r.order = slices.DeleteFunc(r.order, func(p int) bool { return p == i })
	}
	r.ready[i], r.order = true, append(r.order, i)
	return false
}

// unused returns the parameters that this rank never uses, without sparse ones.
func (u *uses) unused(r *Reducer) (all []int) {
	for i, n := range u.first {
		if n == 0 && r.params[i].SparseRows == 0 {
			all = append(all, i)
		}
	}
	return all
}

// reset begins the next step.
func (u *uses) reset() { clear(u.now) }

// putRecorded brings the gradients of the first step to their buckets, and keeps its counts.
func (r *Reducer) putRecorded(ctx context.Context) error {
	if !r.recording() {
		return nil
	}
	r.uses.first = make([]int, len(r.params))
	copy(r.uses.first, r.uses.now)
	for _, i := range slices.Clone(r.order) {
		if r.params[i].SparseRows > 0 {
			continue
		}
		r.order = r.order[1:] // put appends it again
		if err := r.put(ctx, i); err != nil {
			return err
		}
	}
	return nil
}
