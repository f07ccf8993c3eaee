package peer

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda/cudasim"
	"github.com/colligo-go/colligo/cuda/cudasim/model"
	"github.com/colligo-go/colligo/cuda/nccl"
	"github.com/colligo-go/colligo/cuda/nccl/ncclsim"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/plan"
)

// carried runs f on ranks whose GPUs are apart, each with a library. It returns what was said of staging and of NCCL.
func carried(t *testing.T, size int, libraries func(sim *ncclsim.Sim, rank int) (*nccl.Library, error), hurt func(*ncclsim.Sim),
	f func(*rank) error) (lines []string, library *ncclsim.Sim) {
	t.Helper()
	machine := islands(t, size, nil)
	library = ncclsim.New(machine.Driver(), ncclsim.Version)
	hurt(library)
	log := onIslands(t, machine, library, size, func(rank int) (nccl.Options, Options, error) {
		l, err := libraries(library, rank)
		return nccl.Options{Library: l}, Options{Memory: 24 << 20, Timeout: 10 * time.Second}, err // one case waits it out
	}, f)
	for l := range strings.Lines(log) {
		if strings.Contains(l, "stag") {
			lines = append(lines, l)
		}
	}
	return lines, library
}

// onIslands runs f on ranks that have a simulated library, each with options of its own, and closes machine and library. It returns what
// was logged.
func onIslands(t *testing.T, machine *cudasim.Sim, library *ncclsim.Sim, size int, options func(rank int) (nccl.Options, Options, error),
	f func(*rank) error) string {
	t.Helper()
	log := &said{}
	groups := formed(t, "sim", size, log)
	errs := make(chan error, size)
	for i, g := range groups {
		go func() {
			o, own, err := options(i)
			if err == nil {
				err = life(nccl.With(t.Context(), o), g, machine.Driver(), i, simHalf, own, f)
			}
			errs <- err
		}()
	}
	for range groups {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	require.NoError(t, library.Close())
	machine.Drain()
	require.Empty(t, machine.Races())
	machine.Close()
	return log.String()
}

// TestApartTwoLevels has ranks on two hosts of two devices each carry out everything. All-reduces of what NCCL has go in two levels by the
// rules that are given, and else in one. The devices of a host reach each other.
func TestApartTwoLevels(t *testing.T) {
	t.Parallel()
	always := []nccl.Rule{{Coll: plan.AllReduce, Algorithm: nccl.TwoLevel}}
	for name, c := range map[string]struct {
		rules []nccl.Rule
		two   uint64 // all-reduces in two levels, of those of 40 bytes and of 400 KiB
	}{"always": {always, 2}, "for sockets": {nccl.SocketRules(), 1}, "the default": {nil, 0}, "never": {[]nccl.Rule{}, 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			machine := islands(t, 4, func(a, b int) bool { return a/2 == b/2 })
			require.NoError(t, model.RegisterReduction(machine, colligo.BFloat16, colligo.KindSum))
			for _, k := range []colligo.OpKind{colligo.KindSum, colligo.KindMax} {
				require.NoError(t, model.RegisterReduction(machine, colligo.Int32, k))
			}
			library := ncclsim.New(machine.Driver(), ncclsim.Version)
			log := onIslands(t, machine, library, 4, func(rank int) (nccl.Options, Options, error) {
				l, err := library.Library()
				return nccl.Options{Library: l, Rules: c.rules}, Options{Memory: 24 << 20, Timeout: time.Minute, host: fmt.Sprint("host ", rank/2)}, err
			}, func(r *rank) error { return r.hosts(c.two) })
			require.Contains(t, log, "ranks 0 and 2 are on different hosts: NCCL 2.28.9 carries the collectives, and messages are staged")
			require.Equal(t, c.two > 0, strings.Contains(log, "all-reduces go in two levels, by the table"))
		})
	}
}

// hosts carries out everything, and counts of two all-reduces how many go in two levels.
func (r *rank) hosts(two uint64) error {
	for _, n := range []int{0, 1, 1001} {
		if err := first(r.everything(n), func() error { return r.blocks(n, n == 1) }); err != nil {
			return err
		}
	}
	if err := first(r.lacking(500), func() error { return r.bothWays(true) }); err != nil {
		return err
	}
	before := r.g.Metrics().Carried
	for _, n := range []int{10, 100 << 10} {
		if err := r.allReduce(trial{dtype: colligo.Float32, op: colligo.Sum, count: n}); err != nil {
			return err
		}
	}
	after := r.g.Metrics().Carried
	if after[nccl.TwoLevel]-before[nccl.TwoLevel] != two || after[nccl.Flat]-before[nccl.Flat] != 2-two || after["staged"] == 0 {
		return fmt.Errorf("carried %v before, %v after", before, after)
	}
	return nil
}

func everyone(sim *ncclsim.Sim, _ int) (*nccl.Library, error) { return sim.Library() }

// TestApartByNCCL has NCCL carry everything among GPUs that are apart, and stages the reductions that it lacks.
func TestApartByNCCL(t *testing.T) {
	t.Parallel()
	lines, library := carried(t, 3, everyone, func(*ncclsim.Sim) {}, func(r *rank) error {
		for _, n := range []int{0, 1, 1001} {
			if err := first(r.everything(n),
				func() error { return r.blocks(n, false) },
				func() error { return r.blocks(n, true) }); err != nil {
				return err
			}
		}
		if err := r.lacking(500); err != nil {
			return err
		}
		return first(r.everything(17), func() error { return r.bothWays(false) }, func() error { return r.bothWays(true) })
	})
	require.Len(t, lines, 1, "it is said once")
	require.Contains(t, lines[0], "level=WARN")
	require.Contains(t, lines[0], "GPUs 0 and 1 (ranks 0 and 1) cannot reach each other")
	require.Contains(t, lines[0], "NCCL 2.28.9 carries the collectives, and messages are staged over sim")
	require.Contains(t, library.Calls(), "ncclAllReduce")
}

// TestApartByOldNCCL takes a library that has no configurations of communicators, the same on all ranks.
func TestApartByOldNCCL(t *testing.T) {
	t.Parallel()
	lines, _ := carried(t, 2, everyone, func(s *ncclsim.Sim) { s.SetVersion(21300) }, func(r *rank) error { return r.everything(101) })
	require.Len(t, lines, 1, "it is said once")
	require.Contains(t, lines[0], "NCCL 2.13.0 carries the collectives")
}

// TestApartRecord looks at numbers, durations and hooks.
func TestApartRecord(t *testing.T) {
	t.Parallel()
	carried(t, 2, everyone, func(*ncclsim.Sim) {}, (*rank).recorded)
}

// TestApartRegistered registers memory, which changes nothing.
func TestApartRegistered(t *testing.T) {
	t.Parallel()
	carried(t, 2, everyone, func(*ncclsim.Sim) {}, func(r *rank) error {
		x := r.tensor(0, colligo.Int32, 0, 100)
		m, err := r.g.Register(r.ctx, x)
		if err != nil {
			return err
		}
		return first(r.lacking(100), m.Close)
	})
}

// TestApartFails has the library meet an error in the background. All ranks are told.
func TestApartFails(t *testing.T) {
	t.Parallel()
	var library *ncclsim.Sim
	carried(t, 2, everyone, func(s *ncclsim.Sim) { library = s }, func(r *rank) error {
		c := trial{dtype: colligo.Float32, op: colligo.Sum, count: 10}
		if err := first(r.allReduce(c), func() error { return r.lacking(10) }); err != nil {
			return err
		}
		if r.g.Rank() == 1 {
			library.Break(1, nccl.RemoteError)
		}
		x := r.tensor(0, colligo.Float32, 0, 10)
		for {
			err := r.g.AllReduceAsync(r.ctx, x, colligo.Sum).Synchronize(r.ctx)
			if err != nil && strings.Contains(err.Error(), "ncclRemoteError") {
				return nil
			} else if err != nil {
				return err
			}
		}
	})
}

// lacking runs reductions that NCCL lacks among those that it has, on one tensor without waiting in between.
func (r *rank) lacking(n int) error {
	for _, async := range []bool{false, true} {
		for _, op := range []colligo.ReduceOp{colligo.BAnd, colligo.Sum, colligo.BXor, colligo.BOr, colligo.Max} {
			if err := r.allReduce(trial{dtype: colligo.Int32, op: op, count: n, async: async}); err != nil {
				return err
			}
		}
	}
	d, size := colligo.Int32, r.g.Size()
	x := r.tensor(0, d, 0, n)
	if err := r.put(x, bytes.Repeat([]byte{3, 0, 0, 0}, n)); err != nil {
		return err
	}
	for _, op := range []colligo.ReduceOp{colligo.Sum, colligo.BOr, colligo.Sum, colligo.BAnd} {
		r.g.AllReduceAsync(r.ctx, x, op)
	}
	if err := r.g.AllReduceAsync(r.ctx, x, colligo.Max).Wait(r.ctx); err != nil {
		return err
	}
	return r.expect("the chain", x, bytes.Repeat([]byte{byte(3 * size * size), 0, 0, 0}, n))
}

// bothWays runs a block of reductions and messages of both ways.
func (r *rank) bothWays(async bool) error {
	const n = 33
	d, size, me := colligo.Int32, r.g.Size(), r.g.Rank()
	a, b, got := r.tensor(0, d, 0, n), r.tensor(0, d, n+2*margin/4, n), r.tensor(1, d, 0, n)
	fill := func(x colligo.Tensor, v byte) error { return r.put(x, bytes.Repeat([]byte{v, 0, 0, 0}, n)) }
	if err := first(fill(a, 1), func() error { return fill(b, byte(me+1)) }, func() error { return fill(got, 0) }); err != nil {
		return err
	}
	calls := func(k *pg.Batch) error {
		k.Recv(got, (me+size-1)%size, 0)
		k.AllReduce(a, colligo.Sum)
		k.AllReduce(a, colligo.BOr)
		k.AllReduce(a, colligo.Sum)
		k.Send(b, (me+1)%size, 0)
		return nil
	}
	if !async {
		if err := r.g.Coalesce(r.ctx, calls); err != nil {
			return err
		}
	} else if err := r.g.CoalesceAsync(r.ctx, calls).Wait(r.ctx); err != nil {
		return err
	}
	return first(r.expect("reductions of a block", a, bytes.Repeat([]byte{byte(size * size), 0, 0, 0}, n)),
		func() error {
			return r.expect("its message", got, bytes.Repeat([]byte{byte((me+size-1)%size + 1), 0, 0, 0}, n))
		})
}

// TestApartWithoutNCCL stages on all ranks where one has no library, has another one, or is refused.
func TestApartWithoutNCCL(t *testing.T) {
	t.Parallel()
	of := func(version func(rank int) int) func(sim *ncclsim.Sim, rank int) (*nccl.Library, error) {
		return func(sim *ncclsim.Sim, rank int) (*nccl.Library, error) {
			if version(rank) == 0 {
				return nil, nil
			}
			return ncclsim.New(nil, version(rank)).Library()
		}
	}
	for _, c := range []struct {
		name, text string
		libraries  func(sim *ncclsim.Sim, rank int) (*nccl.Library, error)
		fails      string
	}{
		{name: "missing", text: "rank 1 has no NCCL", libraries: of(func(rank int) int { return (1 - rank) * ncclsim.Version })},
		{name: "missing on rank 0", text: "rank 0 has no NCCL", libraries: of(func(rank int) int { return rank * ncclsim.Version })},
		{name: "versions", text: "rank 0 has NCCL 2.27.0, and rank 1 has 2.27.1", libraries: of(func(rank int) int { return 22700 + rank })},
		{name: "identity", text: "rank 0 has no NCCL", libraries: everyone, fails: "ncclGetUniqueId"},
		{name: "refused", text: "NCCL refuses rank 0", libraries: everyone, fails: "ncclCommInitRank"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			lines, _ := carried(t, 2, c.libraries, func(s *ncclsim.Sim) {
				if c.fails != "" {
					s.Fail(c.fails, nccl.InvalidUsage)
				}
			}, func(r *rank) error { return r.everything(101) })
			require.Len(t, lines, 1)
			require.Contains(t, lines[0], "cannot reach each other (device 0 has no P2P access to device 1), and "+c.text)
			require.Contains(t, lines[0], "staging through host memory over sim")
		})
	}
}

var hosts = flag.Bool("peer.hosts", false, "with peer.child: believe to be on a host of its own")

// apartRank is what each rank of a test of NCCL on devices does.
func apartRank(r *rank) error {
	for _, n := range []int{0, 1, 1000, 1<<17 + 3} {
		if err := first(r.everything(n), func() error { return r.blocks(min(n, 8000), n%2 == 1) }); err != nil {
			return err
		}
	}
	return first(r.lacking(500),
		func() error { return r.bothWays(false) },
		func() error { return r.bothWays(true) },
		func() error { return r.everything(17) })
}

// TestGPUApartByNCCL has the machine's NCCL carry the collectives of ranks in processes of their own, which take themselves to be on
// several hosts. NCCL takes them for that, too, by its variable NCCL_HOSTID.
func TestGPUApartByNCCL(t *testing.T) {
	_, n := gpus(t)
	if _, err := nccl.Open(""); err != nil {
		t.Skip(err)
	}
	ranks := children(t, max(n, 2), "-peer.hosts")
	outs := make(chan string, len(ranks))
	for i, c := range ranks {
		c.Env = append(os.Environ(), fmt.Sprint("NCCL_HOSTID=host", i), "NCCL_SOCKET_IFNAME=lo")
		go func() {
			out, err := c.CombinedOutput()
			if err != nil {
				t.Errorf("rank %d: %v\n%s", i, err, out)
			}
			outs <- string(out)
		}()
	}
	said := 0
	for range ranks {
		said += strings.Count(<-outs, "carries the collectives, and messages are staged over")
	}
	require.Equal(t, 1, said, "it is said once")
}
