package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/cuda/nccl"
	"github.com/colligo-go/colligo/cuda/peer"
	"github.com/colligo-go/colligo/pg/tuning"
	"github.com/colligo-go/colligo/plan"
)

func TestWinners(t *testing.T) {
	a, b := &variant{label: "a"}, &variant{label: "b"}
	var all timings
	for _, x := range []struct {
		bytes int
		a, b  float64
	}{{1 << 10, 1, 2}, {4 << 10, 1.02, 1}, {16 << 10, 2, 1}, {64 << 10, 3, 3}, {256 << 10, 1, 9}} {
		all.add(a, plan.AllReduce, x.bytes, x.a)
		all.add(b, plan.AllReduce, x.bytes, x.b)
	}
	// The second size is too close for a line of its own, and so is the fourth.
	require.Equal(t, []winner{{a, 8 << 10}, {b, 128 << 10}, {a, 0}}, all.winners(plan.AllReduce))
	all.add(b, plan.AllReduce, 64<<10, -1)
	require.Equal(t, []plan.Coll{plan.AllReduce}, all.colls)
	require.Empty(t, all.winners(plan.Reduce))
}

// TestWinnerLeaves has a variant that is not measured beyond a size.
func TestWinnerLeaves(t *testing.T) {
	a, b := &variant{label: "a"}, &variant{label: "b"}
	var all timings
	all.add(a, plan.Reduce, 1024, 1)
	all.add(b, plan.Reduce, 1024, 2)
	all.add(b, plan.Reduce, 2048, 2)
	require.Equal(t, []winner{{a, 1024}, {b, 0}}, all.winners(plan.Reduce))
}

func TestBetween(t *testing.T) {
	for _, c := range [][3]int{{1024, 2048, 1024}, {1024, 4096, 2048}, {1 << 10, 1 << 14, 1 << 12}, {0, 8, 1}, {1 << 30, 4 << 30, 2 << 30}} {
		require.Equal(t, c[2], between(c[0], c[1]), c)
	}
}

func TestSourceForm(t *testing.T) {
	require.Equal(t, "plan.ReduceScatter", sourceName(plan.ReduceScatter))
	require.Equal(t, "plan.AllToAll", sourceName(plan.AllToAll))
	require.Equal(t, "3 << 20", sourceBytes(3<<20))
	require.Equal(t, "1000", sourceBytes(1000))
	require.Equal(t, `"other"`, peer.Algorithm("other").GoString())
	v := &variant{rules: []peer.Rule{{Coll: plan.AllReduce, Algorithm: peer.Tiles, Blocks: 64, Threads: 512, Tile: 32 << 10}}}
	require.Equal(t, "\t{Coll: plan.AllReduce, MaxSize: 4, MaxBytes: 1 << 20, Algorithm: Tiles, Blocks: 64, Threads: 512, Tile: 32 << 10},\n",
		onGPULine(plan.AllReduce, 4, winner{v, 1 << 20}))
	v = &variant{algo: map[string]string{"reduce": "chain"}}
	require.Equal(t, "\t{Coll: plan.Reduce, Medium: \"shm\", MaxSize: 4, Algo: \"chain\"},\n", onCPULine(plan.Reduce, "shm", 4, winner{v, 0}))
}

// TestCandidates holds that every grid of the table is tried for every collective that has its algorithm.
func TestCandidates(t *testing.T) {
	o := &options{collectives: collectives(), device: onCUDA, ranks: 2, tune: true, register: true}
	variants, err := o.variants()
	require.NoError(t, err)
	tried := map[string]bool{}
	for _, v := range variants {
		for c := range v.tuned {
			tried[c.String()+" "+gridLabel(v.rules[0])] = true
		}
		require.False(t, v.measures(testCase{collective: collectives()[9]}, 0), "barrier has no table")
	}
	for _, l := range peer.DefaultRules() {
		require.True(t, tried[l.Coll.String()+" "+gridLabel(l)], "%v", l)
	}
}

// TestTuneProcesses tunes real processes on the CPU.
func TestTuneProcesses(t *testing.T) {
	o := bench(nil, "all_reduce", "broadcast", "all_to_all", "-ranks", "2", "-tune", "-n", "2", "-w", "0", "-e", "64", "-f", "8")
	require.Zero(t, o.code, o.stderr)
	require.Contains(t, o.stderr, "bench: measures candidate 6: all_reduce ring\n")
	require.Regexp(t, `^// Measured by 2 ranks, cpu, transport \w+; element types float32, reductions sum\.\n(// \w+ \d+, us:( [\d.e+]+ candidate \d: [^;\n]*;?)+\n)+return \[\]Choice{\n`+
		`(\t{Coll: plan\.AllReduce, Medium: "\w+", MaxSize: 2,( MaxBytes: \d+,)? Algo: "\w+"},\n)+(\t{Coll: plan\.Broadcast, .*},\n)+(\t{Coll: plan\.AllToAll, .*},\n)+}\n$`, o.stdout)
	o = bench(nil, "sendrecv", "-tune")
	require.Equal(t, 2, o.code)
	require.Contains(t, o.stderr, "several algorithms on the CPU")
}

// TestTuneWritesTable writes a table for two numbers of ranks, and picks by it.
func TestTuneWritesTable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "table")
	o := bench(nil, "all_reduce", "-ranks", "2,3", "-transport", "tcp", "-tune", "-rounds", "2", "-out", file, "-n", "2", "-w", "0", "-e", "64", "-f", "8")
	require.Zero(t, o.code, o.stderr)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	table, err := tuning.Parse(string(text))
	require.NoError(t, err)
	require.Equal(t, 2, table[0].MaxSize)
	require.Equal(t, 3, table[len(table)-1].MaxSize)
	require.Equal(t, "tcp", table[0].Medium)
	require.NotZero(t, table[0].Cores)

	require.NoError(t, os.WriteFile(file, []byte("all_reduce: double_tree\n"), 0o600))
	o = bench(nil, "all_reduce", "-ranks", "2", "-n", "1", "-w", "0", "-e", "8", "-table", file, "-json")
	require.Zero(t, o.code, o.stderr)
	require.Equal(t, "double_tree", recordsOf(t, o.stdout)[0].Algo)
	require.Contains(t, bench(nil, "-choices", "-table", file).stdout, "\nall_reduce: double_tree, lanes 1\n")
	require.NoError(t, os.WriteFile(file, []byte("all_reduce: none\n"), 0o600))
	require.Contains(t, bench(nil, "all_reduce", "-table", file).stderr, "-table "+file+": line 1")
}

// TestSpread says which times could as well be the other way round.
func TestSpread(t *testing.T) {
	a, b, c := &variant{label: "a"}, &variant{label: "b"}, &variant{label: "c"}
	var all timings
	for round := range 2 {
		for v, us := range map[*variant]float64{a: 10, b: 12, c: 30} {
			us += 3 * float64(round)
			all.add(v, plan.AllReduce, 8, us)
			all.widen(v, plan.AllReduce, 8, us-1, 100)
		}
		all.endRound()
	}
	require.Equal(t, "// all_reduce 8, us: 10 a; 12 b (within the spread); 30 c\n", all.best.listing(plan.AllReduce))
	require.Equal(t, []winner{{a, 0}}, all.best.winners(plan.AllReduce))
}

func TestChoices(t *testing.T) {
	o := bench(nil, "-choices")
	require.Zero(t, o.code)
	require.Contains(t, o.stdout, "\nall_reduce else: ring, of direct ")
	for _, l := range peer.DefaultRules() {
		require.Contains(t, o.stdout, "\n"+l.String()+"\n")
	}
	_, hosts, found := strings.Cut(o.stdout, "# tensors on GPUs of several hosts that have as many each")
	require.True(t, found)
	require.NotEmpty(t, nccl.SocketRules())
	for _, l := range nccl.SocketRules() {
		require.Contains(t, hosts, "\n"+l.String()+"\n")
	}
}

// TestTry gives the grids to try, and what is no grid.
func TestTry(t *testing.T) {
	o, err := parse([]string{"all_reduce", "broadcast", "-ranks", "2", "-tune", "-try", "tiles 128x512 16Ki, copy-ring 32x256"})
	require.NoError(t, err)
	require.Equal(t, "tiles 128x512 16Ki,copy-ring 32x256", o.try.String())
	o.device = onCUDA
	variants, err := o.variants()
	require.NoError(t, err)
	require.Len(t, variants, 2)
	require.Equal(t, peer.Rule{Coll: plan.AllReduce, Algorithm: peer.Tiles, Blocks: 128, Threads: 512, Tile: 16 << 10}, variants[0].rules[0])
	require.Contains(t, variants[0].tuned, plan.Broadcast)
	for _, x := range []string{"tiles", "tiles 8", "tiles 8x32 much", "tiles 8x32 1Ki more"} {
		_, err := parse([]string{"all_reduce", "-tune", "-try", x})
		require.ErrorContains(t, err, x)
	}
	got := bench(nil, "all_reduce", "-device", "cpu", "-tune", "-try", "tiles 8x32")
	require.Equal(t, 2, got.code)
	require.Contains(t, got.stderr, "-try tiles 8x32 goes with -tune on GPUs")
}
