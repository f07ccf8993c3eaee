package peer

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/cudasim"
	"github.com/colligo-go/colligo/cuda/cudasim/model"
	"github.com/colligo-go/colligo/cuda/staged"
	"github.com/colligo-go/colligo/internal/journal"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/store"
)

// islands makes a machine whose devices reach each other only where reach says so; nil keeps all apart.
func islands(t testing.TB, devices int, reach func(a, b int) bool) *cudasim.Sim {
	t.Helper()
	if reach == nil {
		reach = func(int, int) bool { return false }
	}
	sim := cudasim.New(cudasim.Config{Devices: devices, Seed: *seed, CanAccess: reach, Patience: simPatience})
	cudasim.Limit(t, sim)
	require.NoError(t, model.Register(sim))
	require.NoError(t, model.RegisterReduction(sim, colligo.Float32, colligo.KindSum))
	return sim
}

// checked fails the test for races, faults and leaks of the machine.
func checked(t testing.TB, sim *cudasim.Sim) *cudasim.Sim {
	t.Helper()
	t.Cleanup(func() { cudasim.Check(t, sim) })
	return sim
}

// said is a log of what ranks say.
type said struct{ journal.Journal }

// staging returns the lines about it.
func (s *said) staging() []string {
	var all []string
	for l := range strings.Lines(s.String()) {
		if strings.Contains(l, "staging") {
			all = append(all, l)
		}
	}
	return all
}

// formed makes a group in this process over a transport: sim, shm or tcp.
func formed(t testing.TB, transport string, size int, log *said) []*pg.Group {
	t.Helper()
	c := pg.Config{Log: slog.New(slog.NewTextHandler(log, nil)), Recorder: pg.RecorderOptions{DumpOnError: pg.Off}}
	if transport == "sim" {
		groups, err := pg.InProcess(t.Context(), size, c)
		require.NoError(t, err)
		return groups
	}
	c.Store, c.Size, c.Transport = store.NewHash(), size, transport
	groups, errs := make([]*pg.Group, size), make([]error, size)
	var all sync.WaitGroup
	for i := range groups {
		c := c
		c.Rank = i
		all.Go(func() { groups[i], errs[i] = pg.Init(t.Context(), c) })
	}
	all.Wait()
	require.NoError(t, errors.Join(errs...))
	return groups
}

// crew is the ranks of a test: how they are linked, which drivers and options they have.
type crew struct {
	transport string // sim if empty
	devices   int
	driver    func(rank int) *cuda.Driver
	options   func(rank int) Options
	half      int // of the arena; simHalf if 0
}

// onStaged runs f on all ranks, and returns what was said of staging.
func onStaged(t testing.TB, size int, c crew, f func(*rank) error) []string {
	t.Helper()
	if c.transport == "" {
		c.transport = "sim"
	}
	if c.half == 0 {
		c.half = simHalf
	}
	log := &said{}
	groups := formed(t, c.transport, size, log)
	errs := make(chan error, size)
	for i, g := range groups {
		go func() { errs <- life(t.Context(), g, c.driver(i), i%c.devices, c.half, c.options(i), f) }()
	}
	for range size {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	return log.staging()
}

// everything is all collectives and messages, of n elements.
func (r *rank) everything(n int) error {
	d := colligo.Float32
	errs := []error{
		r.allReduce(trial{dtype: d, op: colligo.Sum, count: n, shift: n % 4}),
		r.allReduce(trial{dtype: d, op: colligo.Avg, count: n, async: true}),
		r.allReduce(trial{dtype: colligo.BFloat16, op: colligo.PremulSum(0.5), count: n, shift: 1}),
		r.moves(n), r.lists(n), r.scatters(n), r.reduces(d, n), r.splits(n), r.pairs(n),
		r.folds(d, colligo.Sum, n), r.folds(colligo.BFloat16, colligo.PremulSum(0.5), n),
	}
	return cmp.Or(errs...)
}

func one(d *cuda.Driver) func(int) *cuda.Driver { return func(int) *cuda.Driver { return d } }

func same(o Options) func(int) Options { return func(int) Options { return o } }

// separated is a crew on a machine of its own, whose devices do not reach each other.
func separated(t testing.TB, transport string, devices int, o Options) crew {
	t.Helper()
	return crew{transport: transport, devices: devices, driver: one(checked(t, islands(t, devices, nil)).Driver()), options: same(o)}
}

// TestStaged runs everything among devices that do not reach each other, with slots of many rounds and of one.
func TestStaged(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		size, devices, memory int
		transport             string
		counts                []int
	}{
		{2, 2, 24 << 10, "sim", []int{0, 1, 5, 1000, 20_001}},
		{3, 3, 64 << 10, "shm", []int{0, 1, 7, 1000, 20_011}},
		{4, 4, 1 << 20, "shm", []int{3, 33_000}},
		{2, 1, 256 << 10, "tcp", []int{1, 5000}},
		{9, 3, 256 << 10, "sim", []int{1, 3001}},
	} {
		t.Run(fmt.Sprintf("ranks=%d/%s/%d", c.size, c.transport, c.memory), func(t *testing.T) {
			t.Parallel()
			o := Options{Memory: c.memory, Staged: true}
			lines := onStaged(t, c.size, separated(t, c.transport, c.devices, o),
				func(r *rank) error {
					for _, n := range c.counts {
						if err := first(r.everything(n), func() error { return r.blocks(min(n, 8000), n%2 == 1) }); err != nil {
							return err
						}
					}
					return nil
				})
			require.Len(t, lines, 1)
			require.Contains(t, lines[0], "level=INFO")
		})
	}
}

// TestStagedUnasked lets groups find out themselves that their GPUs are apart.
func TestStagedUnasked(t *testing.T) {
	t.Parallel()
	halves := func(a, b int) bool { return a/2 == b/2 }
	for _, c := range []struct {
		name          string
		size, devices int
		reach         func(a, b int) bool
		processes     bool
		host          func(rank int) string
		refuse        string // a function that the last process's driver refuses
		text          string
	}{
		{name: "apart", size: 2, devices: 2, text: "GPUs 0 and 1 (ranks 0 and 1) cannot reach each other (device 0 has no P2P access to device 1)"},
		{name: "halves", size: 4, devices: 4, reach: halves, text: "GPUs 0 and 2 (ranks 0 and 2) cannot reach each other"},
		{name: "processes", size: 3, devices: 3, processes: true, text: "GPUs 0 and 1 (ranks 0 and 1) cannot reach each other"},
		{name: "handles", size: 2, devices: 2, reach: func(int, int) bool { return true }, processes: true, refuse: "IpcOpenMemHandle",
			text: "GPUs 1 and 0 (ranks 1 and 0) cannot reach each other (cuda: cuIpcOpenMemHandle"},
		{name: "no handles", size: 2, devices: 2, reach: func(int, int) bool { return true }, processes: true, refuse: "IpcGetMemHandle",
			text: "GPUs 0 and 1 (ranks 0 and 1) cannot reach each other (its driver gives no IPC handle"},
		{name: "hosts", size: 4, devices: 2, reach: func(int, int) bool { return true }, host: func(rank int) string { return fmt.Sprint("host ", rank/2) },
			text: "ranks 0 and 2 are on different hosts"},
		{name: "many", size: 9, devices: 9, reach: func(int, int) bool { return true }, text: "a group of 9 ranks, and GPUs that reach each other's memory are at most 8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			sim := checked(t, islands(t, c.devices, c.reach))
			driver := one(sim.Driver())
			if c.processes {
				var all []*cuda.Driver
				for i := range c.size {
					p := sim.Process()
					if i == c.size-1 && c.refuse != "" {
						p.Fail(c.refuse, 0, cuda.NotSupported)
					}
					all = append(all, p.Driver())
				}
				driver = func(rank int) *cuda.Driver { return all[rank] }
			}
			options := func(rank int) Options {
				o := Options{Memory: 24 << 20}
				if c.host != nil {
					o.host = c.host(rank)
				}
				return o
			}
			lines := onStaged(t, c.size, crew{devices: c.devices, driver: driver, options: options}, func(r *rank) error { return r.everything(1001) })
			require.Len(t, lines, 1, "it is said once")
			require.Contains(t, lines[0], "level=WARN")
			require.Contains(t, lines[0], c.text)
			require.Contains(t, lines[0], "staging through host memory over sim")
		})
	}
}

// TestStagedTogether keeps groups whose GPUs reach each other from staging.
func TestStagedTogether(t *testing.T) {
	t.Parallel()
	lines := onStaged(t, 2, crew{devices: 2, driver: one(simulated(t, 2).Driver()), options: same(small(LL))}, func(r *rank) error {
		return r.allReduce(trial{dtype: colligo.Float32, op: colligo.Sum, count: 100})
	})
	require.Empty(t, lines)
}

// TestStagedStreams changes streams, has many operations in flight, and mixes messages with collectives.
func TestStagedStreams(t *testing.T) {
	t.Parallel()
	o := Options{Memory: 64 << 10, Staged: true}
	onStaged(t, 3, separated(t, "shm", 3, o), func(r *rank) error {
		return first(r.wander(20_000), func() error { return r.crowd(3 * staged.OpenTransfers) })
	})
}

// TestStagedRecord looks at numbers, durations and hooks.
func TestStagedRecord(t *testing.T) {
	t.Parallel()
	o := Options{Memory: 64 << 10, Staged: true}
	onStaged(t, 2, separated(t, "", 2, o), (*rank).recorded)
}

// crowd starts n sums at once, and messages between them, and waits for all at the end.
func (r *rank) crowd(n int) error {
	d, size, me := colligo.Float32, r.g.Size(), r.g.Rank()
	x, out, in := r.tensor(0, d, 0, 40), r.tensor(0, d, 1000, 500), r.tensor(1, d, 0, 500)
	if err := first(r.put(out, values(d, colligo.KindSum, me, 500)),
		func() error { return r.put(in, make([]byte, in.Size())) },
		func() error { return r.put(x, make([]byte, x.Size())) }); err != nil {
		return err
	}
	var all []*pg.Work
	for i := range n {
		all = append(all, r.g.AllReduceAsync(r.ctx, x, colligo.Sum))
		if i%8 == 0 {
			all = append(all, r.g.RecvAsync(r.ctx, in, (me+size-1)%size, 1), r.g.SendAsync(r.ctx, out, (me+1)%size, 1))
		}
	}
	for _, w := range all {
		if err := first(w.Wait(r.ctx), func() error { return w.Synchronize(context.Background()) }); err != nil {
			return err
		}
	}
	return first(r.expect("sum of nothing", x, make([]byte, x.Size())),
		func() error { return r.expect("message", in, values(d, colligo.KindSum, (me+size-1)%size, 500)) })
}

// TestStagedRounding compares sums that depend on the order of summation with those of the CPU, round by round.
func TestStagedRounding(t *testing.T) {
	t.Parallel()
	o := Options{Memory: 24 << 10, Staged: true}
	const round = 4 << 10 / 4 // elements
	onStaged(t, 5, separated(t, "sim", 5, o), func(r *rank) error {
		random := rand.New(rand.NewPCG(*seed, uint64(r.g.Rank())))
		for _, n := range []int{1, 7, round, round + 1, 5*round - 3} {
			own := make([]float32, n)
			for i := range own {
				own[i] = random.Float32()*2 - 1
			}
			x, data := r.tensor(0, colligo.Float32, 0, n), bytes.Clone(colligo.Of(own).CPUBytes())
			for i := 0; i < n; i += round {
				if err := r.g.AllReduce(r.ctx, colligo.Of(own[i:min(i+round, n)]), colligo.Sum); err != nil {
					return err
				}
			}
			if err := r.try("sum of fractions", x, data, x, colligo.Of(own).CPUBytes(), func() error {
				return r.g.AllReduce(r.ctx, x, colligo.Sum)
			}); err != nil {
				return err
			}
		}
		return nil
	})
}

// TestStagedRegistered registers memory, which changes nothing.
func TestStagedRegistered(t *testing.T) {
	t.Parallel()
	o := Options{Memory: 64 << 10, Staged: true}
	onStaged(t, 2, separated(t, "sim", 2, o), func(r *rank) error {
		b, err := pg.BackendOf(r.ctx, r.g, r.device.Place())
		if err != nil {
			return err
		}
		if s := fmt.Sprint(b); !strings.Contains(s, "of host memory over sim (options ask for it)") {
			return errors.New(s)
		}
		w, err := r.g.Register(r.ctx, r.tensor(0, colligo.Float32, 0, 5000))
		if err != nil {
			return err
		}
		return first(r.allReduce(trial{dtype: colligo.Float32, op: colligo.Sum, count: 5000, async: true}),
			w.Close,
			func() error { return r.allReduce(trial{dtype: colligo.Float32, op: colligo.Sum, count: 500}) })
	})
}

// TestStagedGroups stages in a group and in one made of it, which is bound to its device from the beginning.
func TestStagedGroups(t *testing.T) {
	t.Parallel()
	o := Options{Memory: 64 << 10, Staged: true}
	onStaged(t, 3, separated(t, "shm", 3, o), func(r *rank) error {
		bound := pg.GroupOptions{Device: r.device.Place()}
		sub, err := r.g.NewGroupWith(r.ctx, []int{0, 2}, bound)
		if err != nil {
			return err
		}
		c := trial{dtype: colligo.Float32, op: colligo.Sum, count: 5000}
		if err := r.allReduce(c); err != nil || !sub.IsMember() {
			return err
		}
		small := *r
		small.g = sub
		return first(small.allReduce(c), func() error { return small.moves(1000) }, r.g.Err, sub.Close)
	})
}

// TestStagedTags receives messages in another order than they were sent in.
func TestStagedTags(t *testing.T) {
	t.Parallel()
	o := Options{Memory: 24 << 10, Staged: true}
	onStaged(t, 2, separated(t, "", 2, o), func(r *rank) error {
		d := colligo.Int32
		a, b := r.tensor(1, d, 0, 5000), r.tensor(1, d, 6000, 100)
		da, db := values(d, colligo.KindSum, 0, 5000), values(d, colligo.KindSum, 1, 100)
		if r.g.Rank() == 0 {
			return first(r.put(a, da),
				func() error { return r.put(b, db) },
				func() error { return r.g.Send(r.ctx, a, 1, 1) },
				func() error { return r.g.Send(r.ctx, b, 1, 2) },
				r.synchronize)
		}
		return first(r.put(a, make([]byte, len(da))),
			func() error { return r.put(b, make([]byte, len(db))) },
			func() error { return r.g.Recv(r.ctx, b, 0, 2) },
			func() error { return r.g.Recv(r.ctx, a, 0, 1) },
			func() error { return r.expect("first sent", a, da) },
			func() error { return r.expect("first received", b, db) })
	})
}

// TestStagedShortest has the rank with the fewest rounds of an exchange leave as soon as its device is done.
func TestStagedShortest(t *testing.T) {
	t.Parallel()
	onStaged(t, 3, separated(t, "sim", 3, Options{Memory: 24 << 10, Staged: true}), func(r *rank) error {
		const most = 60_000
		me, counts, total := r.g.Rank(), []int{1, 1, 1}, 3
		if me > 0 {
			counts[3-me], total = most, most+2
		}
		d := colligo.Int32
		own := values(d, colligo.KindSum, me, total)
		var want []byte
		for q := range counts {
			theirs, at := values(d, colligo.KindSum, q, most+2), me
			if q == 2 && me == 2 { // behind its long part
				at = most + 1
			}
			want = append(want, theirs[4*at:4*(at+counts[q])]...)
		}
		in, out := r.tensor(0, d, 0, total), r.tensor(1, d, 0, total)
		return r.try("all_to_all", in, own, out, want, func() error { return r.g.AllToAllSingle(r.ctx, out, in, counts, counts) })
	})
}
