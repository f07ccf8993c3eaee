package main

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/colligo-go/colligo/pg"
)

// Durations and bounds from which the numbers of operations follow where -n and -w are automatic.
const (
	warmTime  = 100 * time.Millisecond
	timedTime = 500 * time.Millisecond
	batches   = 5
)

// batch is so many iterations, and the time they took on this rank.
type batch struct {
	iterations int
	took       time.Duration
}

// budget decides how long to go on.
type budget struct {
	turns  int           // batches that it comes in; 0 is the usual number
	fixed  int           // iterations; automatic takes the time
	target time.Duration // of all batches together
	mean   time.Duration // of one iteration, 0 as long as it is unknown
	done   batch         // so far
}

// next returns the iterations of the next batch, 0 when it is enough.
func (b *budget) next() int {
	turns := cmp.Or(b.turns, batches)
	if b.fixed != automatic {
		return min((b.fixed+turns-1)/turns, b.fixed-b.done.iterations)
	}
	switch {
	case b.done.iterations > 0 && b.done.took >= b.target:
		return 0
	case b.mean == 0:
		return max(1, 2*b.done.iterations)
	}
	return max(1, int(b.target/time.Duration(turns)/b.mean))
}

func (b *budget) add(done batch) {
	b.done.iterations += done.iterations
	b.done.took += done.took
	if b.done.took > b.target/20 {
		b.mean = max(1, b.done.took/time.Duration(b.done.iterations))
	}
}

// meter times one trial together with the other ranks.
type meter struct {
	group *pg.Group
	call  func(ctx context.Context) error
	agree func(ctx context.Context, n int64) (int64, error) // rank 0's number on all ranks
}

// measure warms up and returns the batches that count.
func (m *meter) measure(ctx context.Context, o *options) ([]batch, error) {
	warm := &budget{fixed: o.warm, target: warmTime}
	if _, err := m.repeat(ctx, warm); err != nil {
		return nil, err
	}
	return m.repeat(ctx, &budget{turns: o.turns, fixed: o.iterations, target: timedTime, mean: warm.mean})
}

// repeat runs batches for as long as rank 0's budget lasts.
func (m *meter) repeat(ctx context.Context, b *budget) ([]batch, error) {
	var all []batch
	for {
		n, err := m.agree(ctx, int64(b.next()))
		if err != nil || n == 0 {
			return all, err
		}
		took, err := m.batch(ctx, int(n))
		if err != nil {
			return nil, err
		}
		done := batch{int(n), took}
		b.add(done)
		all = append(all, done)
	}
}

// batch returns how long n calls take on this rank. The ranks begin together.
func (m *meter) batch(ctx context.Context, n int) (time.Duration, error) {
	if err := m.group.Barrier(ctx); err != nil {
		return 0, err
	}
	start := time.Now()
	for range n {
		if err := m.call(ctx); err != nil {
			return 0, err
		}
	}
	return time.Since(start), nil
}

// timing is the time of one iteration in microseconds: of all batches, in the fastest and in the slowest.
type timing struct{ time, least, most float64 }

// timingOf combines what the ranks measured: took[rank][i] is the time of batch i. A batch is as slow as its slowest
// rank. The time is the mean over all iterations, or the median of the batches. Ranks without took get nothing.
func timingOf(done []batch, took [][]int64, median bool) timing {
	var t timing
	var total, iterations float64
	var each []float64
	for i, b := range done {
		slowest := int64(0)
		for _, rank := range took {
			slowest = max(slowest, rank[i])
		}
		us := float64(slowest) / 1e3 / float64(b.iterations)
		each = append(each, us)
		total += float64(slowest) / 1e3
		iterations += float64(b.iterations)
	}
	slices.Sort(each)
	t.time, t.least, t.most = total/iterations, each[0], each[len(each)-1]
	if n := len(each); median {
		t.time = (each[(n-1)/2] + each[n/2]) / 2
	}
	return t
}
