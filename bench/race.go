package main

import (
	"context"
	"errors"
	"time"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/pg"
)

// Durations from which the numbers of operations on GPUs follow.
const (
	loopTime  = 30 * time.Millisecond // of one loop
	leastOps  = 20                    // in a loop
	mostCalls = 100_000               // in a loop
	warmCalls = 10
	probe     = 5 // calls that tell how long one takes
	// crowded bounds the operations of a loop where one process has several GPUs. A stream takes about a thousand. The call
	// that then waits for room holds a lock that another rank's thread may need.
	crowded = 400
)

// contender is one of the two implementations that are timed by turns, on the same tensors and stream.
type contender struct {
	call  func(ctx context.Context) error
	ops   int // of one call: a graph has several
	calls int // of one loop
	graph cuda.GraphExec
	done  []batch
}

// race times loops of operations that follow one another on one stream, the contenders by turns.
type race struct {
	*options
	group *pg.Group
	gpu   *gpu
	agree func(ctx context.Context, n int64) (int64, error) // rank 0's number on all ranks
	// host says that the time is the host's: for what returns when it is done.
	host bool
}

// run returns the loops of each contender.
func (r *race) run(ctx context.Context, contenders []*contender) (err error) {
	defer func() {
		for _, x := range contenders {
			if x.graph != 0 {
				err = errors.Join(err, r.gpu.onDevice(func(t cuda.Thread) error { return t.DestroyGraph(x.graph) }))
			}
		}
	}()
	for _, x := range contenders {
		if err := r.prepare(ctx, x); err != nil {
			return err
		}
	}
	for range batches {
		for _, x := range contenders {
			took, err := r.loop(ctx, x, x.calls)
			if err != nil {
				return err
			}
			x.done = append(x.done, batch{x.calls * x.ops, took})
		}
	}
	return nil
}

// prepare warms up, captures the graph if there is to be one, and decides on the length of the loops.
func (r *race) prepare(ctx context.Context, x *contender) error {
	x.ops = 1
	warm := r.warm
	if warm == automatic {
		warm = warmCalls
	}
	// Code is loaded and connections are made by the first call, which no capture would like.
	if _, err := r.loop(ctx, x, max(warm, 1)); err != nil {
		return err
	}
	if r.graph > 0 && !r.host {
		if err := r.capture(ctx, x); err != nil {
			return err
		}
	}
	took, err := r.loop(ctx, x, probe)
	if err != nil {
		return err
	}
	n, err := r.agree(ctx, int64(r.length(took/probe, x.ops)))
	x.calls = int(n)
	return err
}

// length returns the calls of a loop: for -n a fifth of it, else loopTime of them.
func (r *race) length(each time.Duration, ops int) int {
	if r.iterations != automatic {
		return max(1, (r.iterations+batches*ops-1)/(batches*ops))
	}
	n := min(int(loopTime/max(each, 1)), mostCalls)
	if r.inOneProcess() {
		n = min(n, max(crowded/ops, 1))
	}
	return max(n, (leastOps+ops-1)/ops)
}

// capture makes x call a graph of so many operations.
func (r *race) capture(ctx context.Context, x *contender) error {
	eager := x.call
	var err error
	x.graph, err = r.gpu.capture(func() error {
		for range r.graph {
			if err := eager(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	x.ops = r.graph
	x.call = func(context.Context) error {
		return r.gpu.onDevice(func(t cuda.Thread) error { return t.LaunchGraph(x.graph, r.gpu.stream) })
	}
	_, err = r.loop(ctx, x, 1) // the first launch brings the graph to the device
	return err
}

// loop returns how long n calls take on this rank. The ranks begin together.
func (r *race) loop(ctx context.Context, x *contender, n int) (time.Duration, error) {
	if err := r.group.Barrier(ctx); err != nil {
		return 0, err
	}
	repeat := func() error {
		for range n {
			if err := x.call(ctx); err != nil {
				return err
			}
		}
		return nil
	}
	if r.host {
		start := time.Now()
		err := repeat()
		return time.Since(start), err
	}
	ms, err := r.gpu.timed(repeat)
	return time.Duration(ms * float64(time.Millisecond)), err
}
