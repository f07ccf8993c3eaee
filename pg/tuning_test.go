package pg

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/internal/host"
	"github.com/colligo-go/colligo/pg/tuning"
	"github.com/colligo-go/colligo/plan"
	"github.com/colligo-go/colligo/store"
	"github.com/colligo-go/colligo/transport"
)

// quiet is a configuration that logs nothing.
var quiet = Config{Log: slog.New(slog.DiscardHandler)}

// inProcess forms a group whose ranks are closed with the test.
func inProcess(t *testing.T, size int, c Config) []*Group {
	groups, err := InProcess(t.Context(), size, c)
	require.NoError(t, err)
	t.Cleanup(func() {
		for _, g := range groups {
			require.NoError(t, g.Close())
		}
	})
	return groups
}

// both calls f on two ranks at the same time.
func both(t *testing.T, groups []*Group, f func(g *Group) error) {
	t.Helper()
	done := make(chan error)
	go func() { done <- f(groups[1]) }()
	require.NoError(t, f(groups[0]))
	require.NoError(t, <-done)
}

// TestPlansAreKept keeps the plans of even shapes, not of others, and no more than host.PlanCacheSize.
func TestPlansAreKept(t *testing.T) {
	groups := inProcess(t, 2, quiet)
	reduce := func(n int) {
		both(t, groups, func(g *Group) error {
			return g.AllReduce(context.Background(), colligo.Of(make([]int8, n)), colligo.Sum)
		})
	}
	before := len(groups[0].host.Plans()) // the barrier of forming the group
	for range 3 {
		reduce(5)
	}
	require.Equal(t, len(groups[0].host.Plans()), before+1)
	both(t, groups, func(g *Group) error { // another type of the same size has the same plan
		return g.AllReduce(context.Background(), colligo.Of(make([]uint8, 5)), colligo.Max)
	})
	require.Equal(t, len(groups[0].host.Plans()), before+1)
	both(t, groups, func(g *Group) error {
		return g.AllToAllSingle(context.Background(), colligo.Of(make([]int8, 3)), colligo.Of(make([]int8, 3)),
			[][]int{{1, 2}, {2, 1}}[g.Rank()], [][]int{{1, 2}, {2, 1}}[g.Rank()])
	})
	require.Equal(t, len(groups[0].host.Plans()), before+1, "uneven plans are not kept")
	for n := range 2*host.PlanCacheSize + 10 {
		reduce(n)
		require.LessOrEqual(t, len(groups[0].host.Plans()), host.PlanCacheSize)
	}
	reduce(5)
}

func TestAlgorithm(t *testing.T) {
	c := quiet
	c.Tuning = []tuning.Rule{
		{Coll: plan.AllReduce, Medium: "tcp", Algo: "circulant"},
		{Coll: plan.AllReduce, Medium: "sim", MaxBytes: 100, MaxSize: 2, Algo: "direct"},
		{Coll: plan.AllReduce, MinSize: 3, Algo: "circulant"},
		{Coll: plan.AllReduce, MaxBytes: 1000, Algo: "double_tree"},
	}
	c.Algo = map[string]string{"broadcast": "chain"}
	g := inProcess(t, 2, c)[0]
	for bytes, want := range map[int]string{0: "direct", 100: "direct", 101: "double_tree", 1000: "double_tree", 1001: "ring"} {
		require.Equal(t, want, g.Algorithm(plan.AllReduce, bytes), "%d bytes", bytes)
	}
	require.Equal(t, "chain", g.Algorithm(plan.Broadcast, 1))
	require.Equal(t, "ring", g.Algorithm(plan.AllGather, 1), "the last planner where no line fits")
	require.Empty(t, g.Algorithm(plan.Send, 1))
	require.Empty(t, tuning.Algorithms(plan.Recv))
	require.Equal(t, tuning.Rule{Coll: plan.Broadcast, Algo: "chain"}, g.Tuning()[0])
	g.Tuning()[0].Algo = "changed"
	require.Equal(t, "chain", g.Algorithm(plan.Broadcast, 1), "Tuning returns a copy")
	all := make([]string, 0)
	for coll := plan.AllReduce; coll <= plan.Barrier; coll++ {
		all = append(all, tuning.Algorithms(coll)...)
	}
	require.Len(t, all, 31)
}

// TestDefaultChoices holds the table against the planners.
func TestDefaultChoices(t *testing.T) {
	require.NoError(t, tuning.Check(tuning.Default()))
}

func TestBadChoices(t *testing.T) {
	for says, change := range map[string]func(c *Config){
		`all_reduce has no algorithm "rinng"; there are direct, recursive_doubling, halving_doubling`: func(c *Config) { c.Algo = map[string]string{"all_reduce": "rinng"} },
		`unknown collective "allreduce"`:               func(c *Config) { c.Algo = map[string]string{"allreduce": "ring"} },
		`send has no algorithm "ring"; there are none`: func(c *Config) { c.Algo = map[string]string{"send": "ring"} },
		`barrier has no algorithm ""`:                  func(c *Config) { c.Tuning = []tuning.Rule{{Coll: plan.Barrier}} },
		"broadcast chain: 99 lanes":                    func(c *Config) { c.Tuning = []tuning.Rule{{Coll: plan.Broadcast, Algo: "chain", Lanes: 99}} },
		"chunks of -1 bytes":                           func(c *Config) { c.Tuning = []tuning.Rule{{Coll: plan.Broadcast, Algo: "chain", ChunkBytes: -1}} },
		`transport "pigeon", there are auto`:           func(c *Config) { c.Transport = "pigeon" },
		`compression "gzip", there are s2 and zstd`:    func(c *Config) { c.Compression = "gzip" },
		"MaxObject is -1":                              func(c *Config) { c.MaxObject = -1 },
		"Timeout is -1ns":                              func(c *Config) { c.Timeout = -1 },
		"rank 7 of 2 ranks":                            func(c *Config) { c.Rank = 7 },
	} {
		c := Config{Store: store.NewHash(), Size: 2}
		change(&c)
		_, err := Init(t.Context(), c)
		require.ErrorContains(t, err, says)
	}
}

// TestInProcessSizes refuses groups that cannot be.
func TestInProcessSizes(t *testing.T) {
	for _, size := range []int{-1, 0, transport.MaxSize + 1} {
		groups, err := InProcess(t.Context(), size, Config{})
		require.ErrorContains(t, err, fmt.Sprintf("pg: a group of %d ranks", size))
		require.Nil(t, groups)
	}
}

func TestChoiceString(t *testing.T) {
	for want, c := range map[string]tuning.Rule{
		"all_reduce: ring, lanes 1":                                {Coll: plan.AllReduce, Algo: "ring"},
		"all_reduce shm ranks 2-4 up to 4 KiB: direct, lanes 1":    {Coll: plan.AllReduce, Medium: "shm", MinSize: 2, MaxSize: 4, MaxBytes: 4096, Algo: "direct"},
		"broadcast ranks 3-: chain, lanes 2, chunks of 64 KiB":     {Coll: plan.Broadcast, MinSize: 3, Algo: "chain", Lanes: 2, ChunkBytes: 1 << 16},
		"all_gather tcp ranks 0-8 up to 1000 B: doubling, lanes 1": {Coll: plan.AllGather, Medium: "tcp", MaxSize: 8, MaxBytes: 1000, Algo: "doubling"},
		"coll(99) up to 8 EiB: , lanes 1":                          {Coll: 99, MaxBytes: math.MaxInt},
	} {
		require.Equal(t, want, c.String())
	}
}

// TestLanesAndChunks runs a plan of two lanes and small chunks that the table asks for.
func TestLanesAndChunks(t *testing.T) {
	c := quiet
	c.Tuning = []tuning.Rule{{Coll: plan.AllReduce, Algo: "ring", Lanes: 2, ChunkBytes: 100}}
	groups := inProcess(t, 2, c)
	both(t, groups, func(g *Group) error {
		x := make([]int32, 1001)
		for i := range x {
			x[i] = int32(i)
		}
		err := g.AllReduce(context.Background(), colligo.Of(x), colligo.Sum)
		for i := range x {
			if x[i] != int32(2*i) {
				t.Errorf("element %d is %d", i, x[i])
				break
			}
		}
		return err
	})
	for _, p := range groups[0].host.Plans() {
		if p.Shape.Coll == plan.AllReduce {
			require.Len(t, p.Lanes, 2)
			require.Equal(t, 25, p.Shape.Chunk)
		}
	}
}
