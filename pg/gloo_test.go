package pg_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/store"
)

// runGloo forms a group over Gloo's wire in this process, and runs f for each of its ranks.
func runGloo(t *testing.T, size int, change func(*pg.Config), f func(ctx context.Context, g *pg.Group) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	s := store.NewHash()
	errs := make([]error, size)
	var all sync.WaitGroup
	for rank := range size {
		all.Go(func() {
			c := pg.Config{Backends: "gloo", Store: s, Rank: rank, Size: size, Interface: "127.0.0.1", Timeout: time.Minute,
				Recorder: pg.RecorderOptions{DumpOnError: pg.Off}}
			if change != nil {
				change(&c)
			}
			g, err := pg.Init(ctx, c)
			if err == nil {
				err = errors.Join(f(context.Background(), g), g.Close()) // a deadline would come before Timeout
			}
			if err != nil {
				errs[rank] = fmt.Errorf("rank %d: %w", rank, err)
			}
		})
	}
	all.Wait()
	require.NoError(t, errors.Join(errs...))
}

// numbers are n elements that tell rank and position.
func numbers(rank, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(rank*1000 + i%997)
	}
	return v
}

// TestGlooCollectives runs every collective over Gloo's wire, in both dialects of rendezvous, and compares with what it is.
func TestGlooCollectives(t *testing.T) {
	for _, torch := range []string{"1.13", "2.12"} {
		for size := 1; size <= 5; size++ {
			t.Run(fmt.Sprintf("torch %s, %d ranks", torch, size), func(t *testing.T) {
				runGloo(t, size, func(c *pg.Config) { c.Torch = torch }, func(ctx context.Context, g *pg.Group) error {
					for _, n := range []int{1, 7, 1000, 600_001} {
						if err := glooCollectives(ctx, g, n); err != nil {
							return fmt.Errorf("%d elements: %w", n, err)
						}
					}
					if torch == "1.13" {
						return nil
					}
					return errors.Join(glooLater(ctx, g, 1), glooLater(ctx, g, 1001))
				})
			})
		}
	}
}

// TestGlooAverageTravelsAsSum lets one rank ask for the average where the others ask for the sum. As in PyTorch sums travel, and each
// rank divides its own result, so every rank gets what it has asked for.
func TestGlooAverageTravelsAsSum(t *testing.T) {
	for size := 2; size <= 4; size++ {
		runGloo(t, size, func(c *pg.Config) { c.Torch = "2.11" }, func(ctx context.Context, g *pg.Group) error {
			for asks := range size {
				for _, n := range []int{1, 1001, 600_001} {
					op, by := colligo.Sum, float32(1)
					if g.Rank() == asks {
						op, by = colligo.Avg, float32(size)
					}
					v, w, all := numbers(g.Rank(), n), numbers(g.Rank(), n), numbers(g.Rank(), size*n)
					part := make([]float32, n)
					err := errors.Join(g.AllReduce(ctx, colligo.Of(v), op), g.Reduce(ctx, colligo.Of(w), asks, op),
						g.ReduceScatterTensor(ctx, colligo.Of(part), colligo.Of(all), op),
						compare("all_reduce", v, func(i int) float32 { return sums(g, i) / by }),
						compare("reduce_scatter_tensor", part, func(i int) float32 { return sums(g, g.Rank()*n+i) / by }))
					if g.Rank() == asks {
						err = errors.Join(err, compare("reduce", w, func(i int) float32 { return sums(g, i) / by }))
					}
					if err != nil {
						return err
					}
				}
			}
			return nil
		})
	}
}

// sums is element i of the sum over all ranks.
func sums(g *pg.Group, i int) float32 {
	n := g.Size()
	return float32(n*(n-1)/2*1000 + n*(i%997))
}

// compare compares elements with what they are to be.
func compare(what string, got []float32, want func(i int) float32) error {
	for i, v := range got {
		if v != want(i) {
			return fmt.Errorf("%s: element %d is %v, want %v", what, i, v, want(i))
		}
	}
	return nil
}

func glooCollectives(ctx context.Context, g *pg.Group, n int) error {
	size, rank := g.Size(), g.Rank()
	v := numbers(rank, n)
	if err := errors.Join(g.AllReduce(ctx, colligo.Of(v), colligo.Sum), compare("all_reduce", v, func(i int) float32 { return sums(g, i) })); err != nil {
		return err
	}
	for root := range size {
		v = numbers(rank, n)
		if err := errors.Join(g.Broadcast(ctx, colligo.Of(v), root), compare("broadcast", v, func(i int) float32 { return float32(root*1000 + i%997) })); err != nil {
			return err
		}
		v = numbers(rank, n)
		if err := g.Reduce(ctx, colligo.Of(v), root, colligo.Sum); err != nil {
			return err
		}
		if rank == root {
			if err := compare("reduce", v, func(i int) float32 { return sums(g, i) }); err != nil {
				return err
			}
		}
	}
	return errors.Join(glooParts(ctx, g, n), g.Barrier(ctx))
}

// perRank returns a tensor for each rank within one slice.
func perRank(size, n int) ([]float32, []colligo.Tensor) {
	all := make([]float32, size*n)
	ts := make([]colligo.Tensor, size)
	for r := range ts {
		ts[r] = colligo.Of(all[r*n : (r+1)*n : (r+1)*n])
	}
	return all, ts
}

func glooParts(ctx context.Context, g *pg.Group, n int) error {
	size, rank := g.Size(), g.Rank()
	gathered := func(i int) float32 { return float32(i/n*1000 + i%n%997) }
	all, outs := perRank(size, n)
	in := colligo.Of(numbers(rank, n))
	if err := errors.Join(g.AllGather(ctx, outs, in), compare("all_gather", all, gathered)); err != nil {
		return err
	}
	clear(all)
	if err := errors.Join(g.AllGatherIntoTensor(ctx, colligo.Of(all), in), compare("all_gather_into_tensor", all, gathered)); err != nil {
		return err
	}
	root := size - 1
	clear(all)
	if rank != root {
		outs = nil
	}
	if err := g.Gather(ctx, outs, in, root); err != nil {
		return err
	}
	if rank == root {
		if err := compare("gather", all, gathered); err != nil {
			return err
		}
	}
	own := make([]float32, n)
	if err := errors.Join(g.Scatter(ctx, colligo.Of(own), outs, root), compare("scatter", own, func(i int) float32 { return float32(rank*1000 + i%997) })); err != nil {
		return err
	}
	out := make([]float32, size*n)
	whole := numbers(rank, size*n)
	if err := g.AllToAllSingle(ctx, colligo.Of(out), colligo.Of(whole), nil, nil); err != nil {
		return err
	}
	return compare("all_to_all_single", out, func(i int) float32 { return float32(i/n*1000 + (rank*n+i%n)%997) })
}

// glooLater runs what later versions have.
func glooLater(ctx context.Context, g *pg.Group, n int) error {
	size, rank := g.Size(), g.Rank()
	part := func(i int) float32 { return sums(g, rank*n+i) }
	out := make([]float32, n)
	if err := errors.Join(g.ReduceScatterTensor(ctx, colligo.Of(out), colligo.Of(numbers(rank, size*n)), colligo.Sum),
		compare("reduce_scatter_tensor", out, part)); err != nil {
		return err
	}
	all, ins := perRank(size, n)
	copy(all, numbers(rank, size*n))
	clear(out)
	if err := errors.Join(g.ReduceScatter(ctx, colligo.Of(out), ins, colligo.Sum), compare("reduce_scatter", out, part)); err != nil {
		return err
	}
	got, outs := perRank(size, n)
	if err := errors.Join(g.AllToAll(ctx, outs, ins), compare("all_to_all", got, func(i int) float32 { return float32(i/n*1000 + (rank*n+i%n)%997) })); err != nil {
		return err
	}
	v := numbers(rank, n)
	return errors.Join(g.AllReduce(ctx, colligo.Of(v), colligo.Avg), compare("average", v, func(i int) float32 { return sums(g, i) / float32(size) }))
}

// TestGlooMessages sends and receives between all ranks, also from any.
func TestGlooMessages(t *testing.T) {
	runGloo(t, 4, nil, func(ctx context.Context, g *pg.Group) error {
		const n = 5000
		var works []*pg.Work
		bufs := make([][]float32, g.Size())
		for peer := range g.Size() {
			if peer == g.Rank() {
				continue
			}
			bufs[peer] = make([]float32, n)
			works = append(works, g.RecvAsync(ctx, colligo.Of(bufs[peer]), peer, 7), g.SendAsync(ctx, colligo.Of(numbers(g.Rank(), n)), peer, 7))
		}
		for _, w := range works {
			if err := w.Synchronize(ctx); err != nil {
				return err
			}
		}
		for peer, b := range bufs {
			if err := compare("message", b, func(i int) float32 { return float32(peer*1000 + i%997) }); b != nil && err != nil {
				return err
			}
		}
		if g.Rank() > 0 {
			return g.Send(ctx, colligo.Of(numbers(g.Rank(), 3)), 0, 9)
		}
		seen := map[int]bool{}
		for range g.Size() - 1 {
			b := make([]float32, 3)
			from, err := g.RecvAny(ctx, colligo.Of(b), 9)
			if err != nil {
				return err
			}
			seen[from] = b[0] == float32(from*1000)
		}
		if len(seen) != g.Size()-1 {
			return fmt.Errorf("messages of %v", seen)
		}
		return nil
	})
}

// TestGlooContexts runs collectives and messages in a group of three contexts, each with links of its own.
func TestGlooContexts(t *testing.T) {
	runGloo(t, 3, func(c *pg.Config) { c.Interface, c.Torch = "127.0.0.1,127.0.0.2,127.0.0.1", "2.12" }, func(ctx context.Context, g *pg.Group) error {
		for range 4 {
			if err := errors.Join(glooCollectives(ctx, g, 1001), glooLater(ctx, g, 100), g.MonitoredBarrier(ctx, 0, false)); err != nil {
				return err
			}
		}
		for tag := range 5 {
			b := make([]float32, 10)
			r := g.RecvAsync(ctx, colligo.Of(b), (g.Rank()+2)%3, tag)
			if err := errors.Join(g.Send(ctx, colligo.Of(numbers(g.Rank(), 10)), (g.Rank()+1)%3, tag), r.Synchronize(ctx)); err != nil {
				return err
			}
		}
		return nil
	})
}

// TestGlooMonitoredBarrier names the rank that has not come.
func TestGlooMonitoredBarrier(t *testing.T) {
	t.Parallel()
	var others sync.WaitGroup
	others.Add(2)
	runGloo(t, 3, nil, func(ctx context.Context, g *pg.Group) error {
		if err := g.MonitoredBarrier(ctx, time.Minute, true); err != nil {
			return err
		}
		if g.Rank() == 2 {
			others.Wait()
			return nil
		}
		err := g.MonitoredBarrier(ctx, 6*time.Second, true)
		others.Done()
		if g.Rank() == 0 && (!errors.Is(err, colligo.ErrTimeout) || !strings.Contains(err.Error(), "rank 2")) || err == nil {
			return fmt.Errorf("the error is %w", err)
		}
		return nil
	})
}

// TestGlooCoalesced runs the coalesced forms, which are one collective each.
func TestGlooCoalesced(t *testing.T) {
	runGloo(t, 3, nil, func(ctx context.Context, g *pg.Group) error {
		a, b := numbers(g.Rank(), 100), numbers(g.Rank(), 300_000)
		err := g.AllReduceCoalesced(ctx, []colligo.Tensor{colligo.Of(a), colligo.Of(b)}, colligo.Sum)
		sum := func(i int) float32 { return sums(g, i) }
		out1, out2 := make([]float32, 300), make([]float32, 3)
		err = errors.Join(err, compare("first", a, sum), compare("second", b, sum))
		err = errors.Join(err, g.AllGatherIntoTensorCoalesced(ctx, []colligo.Tensor{colligo.Of(out1), colligo.Of(out2)},
			[]colligo.Tensor{colligo.Of(numbers(g.Rank(), 100)), colligo.Of(numbers(g.Rank(), 1))}))
		return errors.Join(err, compare("gathered", out1, func(i int) float32 { return float32(i/100*1000 + i%100) }),
			compare("gathered", out2, func(i int) float32 { return float32(i * 1000) }), g.Barrier(ctx))
	})
}

// TestGlooGroups makes groups of some ranks, in both dialects, while others are no members.
func TestGlooGroups(t *testing.T) {
	for _, torch := range []string{"1.13", "2.6"} {
		runGloo(t, 4, func(c *pg.Config) { c.Torch = torch }, func(ctx context.Context, g *pg.Group) error {
			n, err := g.NewGroup(ctx, []int{1, 3})
			if err != nil {
				return err
			}
			if n.Name() != "1" {
				return fmt.Errorf("the group is called %q", n.Name())
			}
			if n.IsMember() {
				v := numbers(n.Rank(), 10)
				err = errors.Join(n.AllReduce(ctx, colligo.Of(v), colligo.Sum), compare("of two", v, func(i int) float32 { return sums(n, i) }))
				_, nested := n.NewGroup(ctx, []int{0})
				if nested == nil {
					err = errors.Join(err, errors.New("a group of a group"))
				}
				err = errors.Join(err, n.Close())
			}
			mine, _, err2 := g.NewSubgroups(ctx, 2, pg.GroupOptions{})
			if err2 != nil {
				return errors.Join(err, err2)
			}
			return errors.Join(err, mine.Barrier(ctx), mine.Close(), g.Barrier(ctx))
		})
	}
}

// TestGlooRefuses calls what ranks of PyTorch do not have. These calls take no tag, and the group goes on.
func TestGlooRefuses(t *testing.T) {
	runGloo(t, 2, func(c *pg.Config) { c.Torch = "1.13" }, func(ctx context.Context, g *pg.Group) error {
		one := colligo.Of(make([]float32, 2))
		for i, err := range []error{
			g.AllReduce(ctx, one, colligo.Avg),
			g.AllReduce(ctx, colligo.Of(make([]uint32, 1)), colligo.Sum),
			g.ReduceScatterTensor(ctx, colligo.Of(make([]float32, 1)), one, colligo.Sum),
			g.AllGatherIntoTensor(ctx, colligo.Of([]float32{}), colligo.Of([]float32{})),
		} {
			if err == nil {
				return fmt.Errorf("call %d is not refused", i)
			}
		}
		if _, err := g.Shrink(ctx, 1-g.Rank()); !errors.Is(err, errors.ErrUnsupported) {
			return fmt.Errorf("shrink: %w", err)
		}
		return g.AllReduce(ctx, one, colligo.Sum)
	})
}

// TestGlooConfig refuses configurations that no job of PyTorch has.
func TestGlooConfig(t *testing.T) {
	for _, c := range []pg.Config{
		{Backends: "gloo", Torch: "2.0"},
		{Backends: "gloo", Torch: "two"},
		{Backends: "gloo", Debug: pg.DebugOptions{Level: pg.DebugDetail}},
		{Backends: "gloo", Device: colligo.Device{Kind: colligo.CUDA}},
		{Backends: "cpu:host", Torch: "2.11"},
		{Torch: "2.11"},
	} {
		c.Store, c.Size = store.NewHash(), 1
		_, err := pg.Init(context.Background(), c)
		require.Error(t, err, "%+v", c)
	}
}

// TestGlooFails lets one rank make another call. All ranks end with an error, and those at the mismatch name both lengths.
func TestGlooFails(t *testing.T) {
	start := time.Now()
	runGloo(t, 3, nil, func(ctx context.Context, g *pg.Group) error {
		n := 10
		if g.Rank() == 1 {
			n = 11
		}
		err := g.AllReduce(ctx, colligo.Of(make([]float32, n)), colligo.Sum)
		if !errors.Is(err, colligo.ErrMismatch) && !errors.Is(err, colligo.ErrPeerLost) {
			return fmt.Errorf("the error is %w", err)
		}
		var at *colligo.OpError
		if !errors.As(err, &at) || at.Op != "all_reduce" || at.Peer == colligo.NoRank {
			return fmt.Errorf("the error %w does not tell operation and peer", err)
		}
		return nil
	})
	require.Less(t, time.Since(start), time.Minute/2)
}

// TestGlooTimeout lets one rank stay away.
func TestGlooTimeout(t *testing.T) {
	t.Parallel()
	var others sync.WaitGroup
	others.Add(2)
	runGloo(t, 3, func(c *pg.Config) { c.Timeout = 500 * time.Millisecond }, func(ctx context.Context, g *pg.Group) error {
		if g.Rank() == 2 {
			others.Wait()
			if err := g.Barrier(ctx); !errors.Is(err, colligo.ErrPeerLost) {
				return fmt.Errorf("the late rank: %w", err)
			}
			return nil
		}
		err := g.AllReduce(ctx, colligo.Of(make([]float32, 100)), colligo.Sum)
		others.Done()
		if !errors.Is(err, colligo.ErrTimeout) && !errors.Is(err, colligo.ErrPeerLost) {
			return fmt.Errorf("the error is %w", err)
		}
		return nil
	})
}

// TestGlooAbort ends a group within a collective, while a second collective and a receive are pending. The errors of the rank that ends the
// group name its reason, as over every wire. The peers see connections that were closed, for Gloo has no word for a reason.
func TestGlooAbort(t *testing.T) {
	reason := errors.New("enough")
	for range 6 {
		runGloo(t, 3, nil, func(ctx context.Context, g *pg.Group) error {
			aborts := g.Rank() == 1
			if aborts {
				time.AfterFunc(20*time.Millisecond, func() { g.Abort(reason) })
			}
			message := g.RecvAsync(ctx, colligo.Of(make([]float32, 1)), (g.Rank()+1)%3, 7)
			v := make([]float32, 3_000_000)
			for range 1000 {
				works := []*pg.Work{g.AllReduceAsync(ctx, colligo.Of(v), colligo.Sum), g.AllReduceAsync(ctx, colligo.Of(v), colligo.Sum)}
				if errors.Join(works[0].Wait(ctx), works[1].Wait(ctx)) == nil {
					continue
				}
				for _, w := range append(works, message) {
					err := w.Wait(ctx)
					switch {
					case err == nil && w == message:
						return errors.New("a message came that nobody has sent")
					case err == nil:
					case aborts && !(errors.Is(err, pg.ErrAborted) && errors.Is(err, reason)):
						return fmt.Errorf("the error of the rank that ends the group is %w", err)
					case !aborts && !errors.Is(err, colligo.ErrPeerLost):
						return fmt.Errorf("the error of a peer is %w", err)
					}
				}
				return nil
			}
			return errors.New("nothing has failed")
		})
	}
}
