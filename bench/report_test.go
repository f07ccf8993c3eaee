package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda/nccl"
	"github.com/colligo-go/colligo/cuda/peer"
	"github.com/colligo-go/colligo/plan"
)

// compared is a report of two ranks on two GPUs beside NCCL.
func compared(t *testing.T, out *bytes.Buffer, args ...string) *report {
	t.Helper()
	o, err := parse(append([]string{"all"}, args...))
	require.NoError(t, err)
	o.ranks, o.device, o.transport, o.machine = 2, onCUDA, inProcess, machine{devices: 2}
	s := &environment{where: "NVIDIA H200", first: 812 * time.Millisecond,
		baseline: &baseline{library: &nccl.Library{Path: "/usr/lib/libnccl.so.2"}, version: "2.28.9", nvls: "0"}}
	return &report{options: o, out: out, env: s, variant: &variant{rules: peer.DefaultRules()}}
}

func TestComparedTable(t *testing.T) {
	var out bytes.Buffer
	r := compared(t, &out, "-graph", "20")
	require.NoError(t, r.head())
	all := collectives()
	require.NoError(t, r.row(row{testCase{all[0], colligo.Float32, colligo.Sum}, 1 << 20, 4 << 20, timing{20, 19, 21}, &timing{time: 40}, 0}))
	require.NoError(t, r.row(row{testCase{all[3], colligo.Float32, colligo.Sum}, 1 << 20, 8 << 20, timing{20, 19, 21}, &timing{time: 10}, 0}))
	require.NoError(t, r.row(row{testCase{all[8], colligo.Float32, colligo.Sum}, 1 << 20, 4 << 20, timing{20, 19, 21}, nil, 0}))
	require.NoError(t, r.foot())
	lines := strings.Split(out.String(), "\n")
	require.Equal(t, "# colligo bench: 2 ranks, NVIDIA H200, transport inproc", lines[0])
	require.Contains(t, lines[1], "# method: 5 loops of launches of a graph of 20 operations back to back on one stream")
	require.Contains(t, lines[2], "# compared with NCCL 2.28.9 (/usr/lib/libnccl.so.2), NCCL_NVLS_ENABLE=0: same tensors, same stream")
	require.Equal(t, "# first all_reduce on the GPU done 812ms after the process began", lines[3])
	require.Equal(t, strings.Fields("# size count type redop root time algbw busbw #wrong min max nccl busbw ratio algorithm"), strings.Fields(lines[4]))
	for i, want := range map[int]string{
		7:  "4194304 1048576 float32 sum -1 20.00 209.72 209.72 0 19.00 21.00 40.00 104.86 2.00 sentinel",
		9:  "8388608 1048576 float32 none -1 20.00 419.43 209.72 0 19.00 21.00 10.00 419.43 0.50 rotation",
		11: "4194304 1048576 float32 none -1 20.00 209.72 209.72 0 19.00 21.00 N/A N/A N/A pair",
	} {
		require.Equal(t, strings.Fields(want), strings.Fields(lines[i]))
		require.Equal(t, strings.Index(lines[4], "algorithm"), len(lines[i])-len(lines[i][strings.LastIndex(lines[i], " ")+1:]), "column")
	}
	require.Contains(t, out.String(), "# ratio: geometric mean 1.00, lowest 0.50 (all_gather float32 8Mi)\n")
}

func TestComparedJSON(t *testing.T) {
	var out bytes.Buffer
	r := compared(t, &out, "-json")
	require.NoError(t, r.row(row{testCase{collectives()[0], colligo.Float32, colligo.Sum}, 1, 4, timing{20, 19, 21}, &timing{time: 50}, 0}))
	var keys map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &keys))
	require.Equal(t, 50.0, keys["nccl_time_us"])
	require.Equal(t, 2.5, keys["ratio"])
	require.Contains(t, keys, "nccl_busbw_gbps")
	require.Equal(t, "cuda", keys["device"])
}

func TestHasBaseline(t *testing.T) {
	all := collectives()
	for _, c := range []struct {
		of   testCase
		has  bool
		same bool
	}{
		{testCase{all[0], colligo.BFloat16, colligo.Sum}, true, true},
		{testCase{all[0], colligo.Float32, colligo.Avg}, true, false},
		{testCase{all[0], colligo.Bool, colligo.Max}, false, false},
		{testCase{all[0], colligo.Uint8, colligo.BXor}, false, false},
		{testCase{all[0], colligo.Int16, colligo.Sum}, false, false},
		{testCase{collective: all[3], dtype: colligo.Bool}, true, true},
		{testCase{collective: all[3], dtype: colligo.Complex64}, false, false},
		{testCase{collective: all[6], dtype: colligo.Float32}, false, false},
		{testCase{collective: all[9], dtype: colligo.Uint8}, true, true},
	} {
		require.Equal(t, c.has, c.of.hasBaseline(), "%s %v", c.of.name, c.of.dtype)
		require.Equal(t, c.same, c.of.sameResult(), "%s %v", c.of.name, c.of.dtype)
	}
}

func TestLoopLength(t *testing.T) {
	alone := &race{options: &options{iterations: automatic}}
	require.Equal(t, 7500, alone.length(4*time.Microsecond, 1))
	require.Equal(t, 20, alone.length(5*time.Millisecond, 1))
	require.Equal(t, 1, alone.length(100*time.Millisecond, 20))
	require.Equal(t, mostCalls, alone.length(0, 1))
	crowd := &race{options: &options{iterations: automatic, threads: true}}
	require.Equal(t, 400, crowd.length(4*time.Microsecond, 1))
	require.Equal(t, 20, crowd.length(80*time.Microsecond, 20))
	fixed := &race{options: &options{iterations: 101}}
	require.Equal(t, 21, fixed.length(time.Second, 1))
	require.Equal(t, 2, fixed.length(time.Second, 20))
}

func TestAlgorithmOf(t *testing.T) {
	table := peer.DefaultRules()
	require.Equal(t, "ll", algorithmOf(table, plan.AllReduce, 4, 1<<10, false, false))
	require.Equal(t, "ll128", algorithmOf(table, plan.AllReduce, 2, 512<<10, false, false))
	require.Equal(t, "ll128-twoshot", algorithmOf(table, plan.AllReduce, 4, 512<<10, false, false))
	require.Equal(t, "sentinel", algorithmOf(table, plan.AllReduce, 4, 16<<20, false, false))
	require.Equal(t, "fused", algorithmOf(table, plan.AllReduce, 4, 256<<20, true, false))
	require.Equal(t, "ll128-twoshot", algorithmOf(table, plan.AllReduce, 4, 512<<10, true, false))
	require.Equal(t, "pair", algorithmOf(table, plan.Send, 4, 8, false, false))
}

// TestAlgorithmOfNCCL names NCCL where it carries out the group's operations, for the tables of the other backend say nothing then.
func TestAlgorithmOfNCCL(t *testing.T) {
	var out bytes.Buffer
	r := compared(t, &out, "-backend", nccl.Name)
	x := row{testCase{collectives()[0], colligo.Float32, colligo.Sum}, 1 << 20, 4 << 20, timing{20, 19, 21}, nil, 0}
	require.Equal(t, "nccl", r.algorithm(x))
	r.options.backend = ""
	require.NotEqual(t, "nccl", r.algorithm(x))
}
