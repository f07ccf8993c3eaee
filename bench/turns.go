package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// turn is what one of two implementations does in a comparison by turns.
type turn struct {
	budget budget
	run    func(n int) (time.Duration, error)
	done   []batch
}

// byTurns times a trial and the same operation of another library, a batch of each in turn. Only rank 0 knows the other's
// times. The others give it nothing to do while it runs. Theirs is nil if the library lacks the operation.
func (r *runner) byTurns(ctx context.Context, b *binding, t trial) (own, theirs []batch, err error) {
	m := &meter{group: r.group, call: t.call, agree: r.fromRoot}
	x := r.env.external
	mine := &turn{run: func(n int) (time.Duration, error) { return m.batch(ctx, n) }}
	other := &turn{run: func(n int) (time.Duration, error) {
		if len(x.ranks) == 0 {
			return 0, nil
		}
		return x.time(b, n)
	}}
	contenders := []*turn{mine, other}
	has, err := r.hasExternal(ctx, b, other)
	if err != nil {
		return nil, nil, err
	}
	if !has {
		contenders = contenders[:1]
	}
	for _, c := range contenders {
		c.budget = budget{fixed: r.warm, target: warmTime}
	}
	if err := r.inTurn(ctx, contenders); err != nil {
		return nil, nil, err
	}
	for _, c := range contenders {
		c.budget, c.done = budget{turns: r.turns, fixed: r.iterations, target: timedTime, mean: c.budget.mean}, nil
	}
	if err := r.inTurn(ctx, contenders); err != nil {
		return nil, nil, err
	}
	if !has {
		return mine.done, nil, nil
	}
	return mine.done, other.done, nil
}

// hasExternal reports whether the other library has the operation, as rank 0 finds by trying.
func (r *runner) hasExternal(ctx context.Context, b *binding, other *turn) (bool, error) {
	_, err := other.run(1)
	if err != nil && !errors.Is(err, errLacks) {
		return false, err
	}
	answer := int64(1)
	if err != nil {
		answer = 0
		if !r.env.external.refused[b.name] {
			r.env.external.refused[b.name] = true
			fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		}
	}
	has, err := r.fromRoot(ctx, answer)
	return has != 0, err
}

// inTurn runs batches of the contenders in turn until rank 0's budgets are spent.
func (r *runner) inTurn(ctx context.Context, contenders []*turn) error {
	for going := true; going; {
		going = false
		for _, c := range contenders {
			n, err := r.fromRoot(ctx, int64(c.budget.next()))
			if err != nil {
				return err
			}
			if n == 0 {
				continue
			}
			took, err := c.run(int(n))
			if err != nil {
				return err
			}
			done := batch{int(n), took}
			c.budget.add(done)
			c.done, going = append(c.done, done), true
		}
	}
	return nil
}
