package peer

import (
	"cmp"
	"errors"
	"fmt"
	"testing"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/internal/streamorder"
	"github.com/colligo-go/colligo/kernels/ptx"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/plan"
)

// replayed captures operations of n elements, one of them asynchronous. It replays the graph several times with an eager
// operation between, and checks the tensor after each.
func (r *rank) replayed(n int) error {
	d := colligo.Float32
	x := r.tensor(0, d, 0, n)
	want, err := reduced(d, colligo.Max, r.g.Size(), n)
	if err != nil {
		return err
	}
	own := values(d, colligo.KindMax, r.g.Rank(), n)
	once := func() error { return r.g.AllReduce(r.ctx, x, colligo.Max) }
	if err := r.try("all_reduce before capture", x, own, x, want, once); err != nil {
		return err
	}
	graph, err := r.captured(func() error {
		w := r.g.AllReduceAsync(r.ctx, x, colligo.Max)
		return first(w.Wait(r.ctx), once, once)
	})
	if err != nil {
		return err
	}
	for i := range 4 {
		if err := r.try(fmt.Sprintf("replay %d", i), x, own, x, want, func() error { return r.launch(graph) }); err != nil {
			return err
		}
		if err := r.try("all_reduce after a replay", x, own, x, want, once); err != nil {
			return err
		}
	}
	return r.giveBack(graph)
}

func (r *rank) captured(f func() error) (cuda.GraphExec, error) {
	t, err := r.device.Enter()
	if err != nil {
		return 0, err
	}
	defer t.Leave()
	if err := t.BeginCapture(r.stream, cuda.CaptureThreadLocal); err != nil {
		return 0, err
	}
	if err := f(); err != nil {
		return 0, err
	}
	return t.EndCapture(r.stream)
}

func (r *rank) launch(g cuda.GraphExec) error {
	t, err := r.device.Enter()
	if err != nil {
		return err
	}
	defer t.Leave()
	return t.LaunchGraph(g, r.stream)
}

func TestGraph(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []Algorithm{LL, LLTwoShot, Tiles, CopyRing, Fused} {
		t.Run(string(algorithm), func(t *testing.T) {
			t.Parallel()
			onSim(t, 3, small(algorithm), func(r *rank) error {
				return first(r.replayed(5000),
					func() error { return r.replayed(30_000) })
			},
				reduction{colligo.Float32, colligo.KindMax})
		})
	}
}

// capturedFirst captures an operation for which nothing is there yet: no backend, no code. It is captured alone.
func (r *rank) capturedFirst(n int) error {
	d := colligo.Float32
	x := r.tensor(0, d, 0, n)
	want, err := reduced(d, colligo.Max, r.g.Size(), n)
	if err != nil {
		return err
	}
	own := values(d, colligo.KindMax, r.g.Rank(), n)
	if err := r.put(x, own); err != nil {
		return err
	}
	graph, err := r.captured(func() error { return r.g.AllReduce(r.ctx, x, colligo.Max) })
	if err != nil {
		return fmt.Errorf("capturing the first operation: %w", err)
	}
	if err := r.expect("tensor that only a graph is to change", x, own); err != nil {
		return err
	}
	return r.replay(2, graph, x, own, x, want)
}

// replay launches a graph some times, each time with in set to own, expects want in out, and gives the graph back.
func (r *rank) replay(times int, graph cuda.GraphExec, in colligo.Tensor, own []byte, out colligo.Tensor, want []byte) error {
	for i := range times {
		if err := r.try(fmt.Sprintf("replay %d", i), in, own, out, want, func() error { return r.launch(graph) }); err != nil {
			return err
		}
	}
	return r.giveBack(graph)
}

// tryCaptured tries operations as they are, and then so many times from a graph that has captured them.
func (r *rank) tryCaptured(times int, in colligo.Tensor, own []byte, out colligo.Tensor, want []byte, run func() error) error {
	if err := r.try("before capture", in, own, out, want, run); err != nil {
		return err
	}
	graph, err := r.captured(run)
	if err != nil {
		return err
	}
	return r.replay(times, graph, in, own, out, want)
}

// TestEagerRules goes by a rule of the table that is not for graphs, and in a graph by the next one.
func TestEagerRules(t *testing.T) {
	t.Parallel()
	d, launched := spied(simulated(t, 2, reduction{colligo.Float32, colligo.KindMax}).Driver())
	o := Options{Memory: 24 << 20, Rules: []Rule{{Coll: plan.AllReduce, Eager: true, Algorithm: LL, Blocks: 3, Threads: 64},
		{Coll: plan.AllReduce, Algorithm: Tiles, Blocks: 3, Threads: 64, Tile: 1 << 10}}}
	onRanks(t, d, 2, 2, simHalf, o, func(r *rank) error {
		if err := r.replayed(1000); err != nil {
			return err
		}
		if !launched.has(ptx.AllReduceLL) || !launched.has(ptx.AllReduceTiles) {
			return fmt.Errorf("launched are %v", launched.names)
		}
		x := r.tensor(0, colligo.Float32, 0, 1000)
		var graph cuda.GraphExec
		for _, c := range []struct {
			call func() error
			not  string
		}{
			{func() error { return r.g.AllReduce(r.ctx, x, colligo.Max) }, ptx.AllReduceTiles},
			{func() (err error) {
				graph, err = r.captured(func() error { return r.g.AllReduce(r.ctx, x, colligo.Max) })
				return err
			}, ptx.AllReduceLL},
		} {
			if err := r.g.Barrier(r.ctx); err != nil {
				return err
			}
			launched.clear()
			if err := first(r.g.Barrier(r.ctx), c.call); err != nil {
				return err
			}
			if launched.has(c.not) {
				return fmt.Errorf("launched are %v", launched.names)
			}
		}
		return r.giveBack(graph)
	})
}

// giveBack gives a graph back.
func (r *rank) giveBack(graph cuda.GraphExec) error {
	t, err := r.device.Enter()
	if err != nil {
		return err
	}
	defer t.Leave()
	return t.DestroyGraph(graph)
}

// synchronize waits for the rank's stream.
func (r *rank) synchronize() error {
	t, err := r.device.Enter()
	if err != nil {
		return err
	}
	defer t.Leave()
	return t.Synchronize(r.stream)
}

func TestCaptureFirst(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []Algorithm{LL, Tiles, CopyRing, Fused} {
		t.Run(string(algorithm), func(t *testing.T) {
			t.Parallel()
			o, n := taking(t, algorithm, 2, 15_000)
			onSim(t, 2, o, func(r *rank) error { return r.capturedFirst(n) }, reduction{colligo.Float32, colligo.KindMax})
		})
	}
}

// besideCapture runs f in a goroutine while another stream is captured, by a graph that minds what other threads do.
func (r *rank) besideCapture(f func(r *rank, x colligo.Tensor) error) error {
	x := r.tensor(0, colligo.Float32, 0, 1000)
	if err := first(r.put(x, make([]byte, x.Size())),
		func() error { return r.g.AllReduce(r.ctx, x, colligo.Sum) },
		r.synchronize); err != nil {
		return err
	}
	t, err := r.device.Enter()
	if err != nil {
		return err
	}
	defer t.Leave()
	s, err := t.NewStream(0)
	if err != nil {
		return err
	}
	if err := t.BeginCapture(s, cuda.CaptureGlobal); err != nil {
		return err
	}
	over := make(chan error)
	go func() { over <- f(r, x) }()
	err = <-over
	graph, err2 := t.EndCapture(s)
	if err2 == nil {
		err2 = t.DestroyGraph(graph)
	}
	return errors.Join(err, err2, t.DestroyStream(s))
}

// TestBesideCapture does what asks the device while a capture goes on in the process that has no part in it.
func TestBesideCapture(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]func(r *rank, x colligo.Tensor) error{
		"marks": func(r *rank, x colligo.Tensor) (err error) {
			for i := 0; i < 2*streamorder.OpenEnds && err == nil; i++ {
				err = r.g.AllReduceAsync(r.ctx, x, colligo.Sum).Wait(r.ctx)
			}
			return err
		},
		"timed": func(r *rank, x colligo.Tensor) error {
			r.g.SetTiming(true)
			w := r.g.AllReduceAsync(r.ctx, x, colligo.Sum)
			if err := w.Synchronize(r.ctx); err != nil {
				return err
			}
			_, err := w.Duration()
			return err
		},
		"read": func(r *rank, x colligo.Tensor) error {
			b, err := pg.BackendOf(r.ctx, r.g, r.device.Place())
			if err != nil {
				return err
			}
			return b.(*backend).Read(r.ctx, x, func([]byte) bool { return true })
		},
		"registration": func(r *rank, x colligo.Tensor) error {
			w, err := r.register()
			if err != nil {
				return err
			}
			return first(r.g.AllReduce(r.ctx, x, colligo.Sum), w.Close)
		},
		"close": func(r *rank, x colligo.Tensor) error {
			return first(r.g.AllReduce(r.ctx, x, colligo.Sum), r.g.Close)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onSim(t, 1, small(LL), func(r *rank) error { return r.besideCapture(f) })
		})
	}
}

// TestReadCaptured looks into a tensor on a stream that is captured: there is nothing to see yet, and the graph is whole.
func TestReadCaptured(t *testing.T) {
	t.Parallel()
	onSim(t, 1, small(LL), func(r *rank) error {
		x := r.tensor(0, colligo.Float32, 0, 1000)
		b, err := pg.BackendOf(r.ctx, r.g, r.device.Place())
		if err != nil {
			return err
		}
		graph, err := r.captured(func() error {
			return b.(*backend).Read(r.ctx, x, func([]byte) bool { panic("a tensor of a graph was read") })
		})
		if err != nil {
			return err
		}
		return r.giveBack(graph)
	})
}

// TestCaptureBetween reduces on one stream, then captures on another, then reduces on a third. The last reduction waits for
// the first one, and not only for the stream of the capture.
func TestCaptureBetween(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []Algorithm{LL, Tiles, CopyRing, Fused} {
		for _, legacy := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/legacy=%v", algorithm, legacy), func(t *testing.T) {
				t.Parallel()
				o, n := taking(t, algorithm, 2, 40_000)
				o.launch = paces[0] // a graph of one kernel would wait for itself
				onSim(t, 2, o, func(r *rank) error { return r.captureBetween(n, legacy) })
			})
		}
	}
}

func (r *rank) captureBetween(n int, legacy bool) error {
	x, y := r.tensor(0, colligo.Float32, 0, n), r.tensor(1, colligo.Float32, 0, n)
	if err := first(r.put(y, make([]byte, y.Size())),
		func() error { return r.put(x, make([]byte, x.Size())) },
		func() error { return r.g.AllReduce(r.ctx, x, colligo.Sum) },
		r.synchronize); err != nil {
		return err
	}
	t, err := r.device.Enter()
	if err != nil {
		return err
	}
	defer t.Leave()
	var before cuda.Stream
	if !legacy {
		if before, err = t.NewStream(0); err != nil {
			return err
		}
	}
	after, err := t.NewStream(0)
	if err != nil {
		return err
	}
	for range 4 {
		err = first(err, func() error { return r.g.AllReduce(OnStream(r.ctx, before), x, colligo.Sum) })
	}
	graph, err2 := r.captured(func() error {
		return first(r.g.AllReduce(r.ctx, x, colligo.Sum), func() error { return r.g.AllReduceAsync(r.ctx, x, colligo.Sum).Wait(r.ctx) })
	})
	err = cmp.Or(err, err2)
	for range 4 {
		err = first(err, func() error { return r.g.AllReduce(OnStream(r.ctx, after), y, colligo.Sum) })
	}
	err = errors.Join(err, t.Synchronize(after), t.Synchronize(before), t.DestroyGraph(graph), r.g.Close(), t.DestroyStream(after))
	if !legacy {
		err = errors.Join(err, t.DestroyStream(before))
	}
	return err
}
