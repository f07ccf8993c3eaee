package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/cudasim"
	"github.com/colligo-go/colligo/cuda/cudasim/model"
	"github.com/colligo-go/colligo/cuda/nccl"
	"github.com/colligo-go/colligo/cuda/nccl/ncclsim"
)

// onSim runs the program on a simulated machine, whose kernels know sums of float32 and bfloat16.
func onSim(t *testing.T, devices int, args ...string) outcome {
	t.Helper()
	sim := cudasim.New(cudasim.Config{Devices: devices, Seed: 1})
	cudasim.Limit(t, sim)
	require.NoError(t, model.Register(sim))
	for _, d := range []colligo.DType{colligo.Float32, colligo.BFloat16} {
		require.NoError(t, model.RegisterReduction(sim, d, colligo.KindSum))
	}
	var out, errs bytes.Buffer
	library := ncclsim.New(sim.Driver(), ncclsim.Version)
	code := run(args, process{environ: os.Environ(), stdout: &out, stderr: &errs, began: time.Now(),
		open:    func() (*cuda.Driver, error) { return sim.Driver(), nil },
		library: func(string) (*nccl.Library, error) { return library.Library() },
		setenv:  func(string, string) error { return nil }})
	require.NoError(t, library.Close())
	cudasim.Check(t, sim)
	return outcome{code, out.String(), errs.String()}
}

// TestSimulated runs every collective on simulated GPUs, eagerly and from graphs, with ranks that have devices of their
// own and ranks that share them.
func TestSimulated(t *testing.T) {
	for _, c := range [][]string{
		{"-ranks", "3", "-transport", "inproc"},
		{"-ranks", "3", "-threads", "-transport", "tcp"},
		{"-ranks", "2", "-threads", "-graph", "3"},
		{"-ranks", "1", "-threads"},
	} {
		t.Run(strings.Join(c, " "), func(t *testing.T) {
			o := onSim(t, 2, append(c, "all", "-json", "-n", "5", "-w", "1", "-b", "0", "-e", "8Ki", "-f", "8192",
				"-d", "float32,bfloat16")...)
			require.Zero(t, o.code, o.stderr)
			require.Contains(t, o.stderr, "timed by CUDA events")
			require.Contains(t, o.stderr, "first all_reduce on the GPU done")
			seen := map[string]int{}
			for line := range strings.Lines(o.stdout) {
				r := recordOf(t, line)
				require.Zero(t, *r.Wrong, "%+v", r)
				require.Equal(t, "cuda", r.Device)
				require.Nil(t, r.Ratio)
				seen[r.Collective]++
			}
			require.Equal(t, 4, seen["all_reduce"])
			require.Equal(t, 1, seen["barrier"])
		})
	}
}

// TestSimulatedOverNCCL has NCCL carry the steps of plans, and of other operations the whole.
func TestSimulatedOverNCCL(t *testing.T) {
	for _, c := range [][]string{
		{"-ranks", "2", "-threads"},
		{"-ranks", "3", "-threads"},
		{"-ranks", "3", "-threads", "-algo", "tree"},
	} {
		t.Run(strings.Join(c, " "), func(t *testing.T) {
			o := onSim(t, 3, append(c, "all", "-transport", "nccl", "-json", "-n", "2", "-w", "1", "-b", "0", "-e", "8Ki", "-f", "8192",
				"-d", "float32,bfloat16")...)
			require.Zero(t, o.code, o.stderr)
			plans := "ring"
			if len(c) > 3 {
				plans = "tree"
			}
			seen := map[string]string{}
			for line := range strings.Lines(o.stdout) {
				r := recordOf(t, line)
				require.Zero(t, *r.Wrong, "%+v", r)
				require.Equal(t, "nccl", r.Transport)
				seen[r.Collective] = r.Algo
			}
			require.Equal(t, plans, seen["all_reduce"])
			require.Equal(t, plans, seen["reduce_scatter"])
			require.Equal(t, "nccl", seen["gather"])
		})
	}
}

func TestSimulatedTable(t *testing.T) {
	o := onSim(t, 2, "all_reduce", "-threads", "-transport", "inproc", "-n", "1", "-w", "0", "-b", "64Ki", "-e", "64Ki", "-algo", "tiles")
	require.Zero(t, o.code, o.stderr)
	lines := strings.Split(o.stdout, "\n")
	require.Contains(t, lines[0], "# colligo bench: 2 ranks, ") // as many as there are devices
	require.Contains(t, lines[1], "# method: 5 loops of operations back to back on one stream")
	require.Contains(t, lines[1], "all in one process")
	row := strings.Fields(lines[6])
	require.Len(t, row, 12)
	require.Equal(t, []string{"65536", "16384", "float32", "sum", "-1"}, row[:5], o.stdout)
	require.Equal(t, []string{"0", "tiles"}, []string{row[8], row[11]})
}

// TestSimulatedRegistered takes an algorithm that registered memory alone has.
func TestSimulatedRegistered(t *testing.T) {
	o := onSim(t, 2, "all_reduce", "-threads", "-transport", "inproc", "-n", "1", "-w", "0", "-b", "64Ki", "-e", "64Ki", "-algo", "direct",
		"-register")
	require.Zero(t, o.code, o.stderr)
	lines := strings.Split(o.stdout, "\n")
	require.Equal(t, "# tensors: in memory that is registered with colligo", lines[2])
	row := strings.Fields(lines[7])
	require.Len(t, row, 12)
	require.Equal(t, []string{"0", "direct"}, []string{row[8], row[11]})
}

// TestSimulatedRing takes algorithms that the table has for none of these collectives, one in a symmetric heap of a size of its own.
func TestSimulatedRing(t *testing.T) {
	o := onSim(t, 2, "all_gather", "all_to_all", "-threads", "-transport", "inproc", "-n", "1", "-w", "0", "-b", "256Ki", "-e", "256Ki",
		"-algo", "copy-ring", "-heap", "32Mi")
	require.Zero(t, o.code, o.stderr)
	require.Equal(t, 2, strings.Count(o.stdout, " copy-ring\n"), o.stdout)
	o = onSim(t, 2, "all_gather", "all_to_all", "-threads", "-transport", "inproc", "-n", "1", "-w", "0", "-b", "256Ki", "-e", "256Ki",
		"-algo", "copy-direct", "-register")
	require.Zero(t, o.code, o.stderr)
	require.Equal(t, 2, strings.Count(o.stdout, " copy-direct\n"), o.stdout)
}

// TestSimulatedTuning expects a table that compiles in place of the backend's.
func TestSimulatedTuning(t *testing.T) {
	o := onSim(t, 2, "all_reduce", "broadcast", "-threads", "-transport", "inproc", "-tune", "-n", "1", "-w", "0", "-b", "1Ki",
		"-e", "4Ki", "-check=false")
	require.Zero(t, o.code, o.stderr)
	require.Contains(t, o.stderr, "bench: measures tiles 128x512 16Ki\n")
	require.Regexp(t, `^// Measured by 2 ranks, .*\n(// .*\n)+return \[\]Rule{\n(\t{Coll: plan\.AllReduce, MaxSize: 2,( MaxBytes: \d+ << 10,)? `+
		`Algorithm: \w+, Blocks: \d+, Threads: \d+(, Tile: \d+ << 10)?},\n)+(\t{Coll: plan\.Broadcast, .*},\n)+}\n$`, o.stdout)
}

// TestSimulatedLevels asks for two levels on one host, which has one.
func TestSimulatedLevels(t *testing.T) {
	o := onSim(t, 4, "all_reduce", "-ranks", "4", "-threads", "-backend", "nccl", "-algo", nccl.TwoLevel, "-json", "-n", "2", "-w", "1", "-b", "8Ki", "-e", "8Ki")
	require.Zero(t, o.code, o.stderr)
	r := recordOf(t, o.stdout)
	require.Zero(t, *r.Wrong)
	require.Equal(t, nccl.Name, r.Algo)
}

func TestSimulatedMisuse(t *testing.T) {
	for _, c := range []struct {
		says string
		args []string
	}{
		{"-compare mpi: there is nccl", []string{"all_reduce", "-compare", "mpi"}},
		{"NCCL knows tensors on GPUs only", []string{"all_reduce", "-transport", "nccl", "-device", "cpu"}},
		{"not with -backend peer", []string{"all_reduce", "-transport", "nccl", "-backend", "peer"}},
		{"over NCCL there are ring and tree", []string{"all_reduce", "-transport", "nccl", "-algo", "tiles"}},
		{"neither -tune nor -register", []string{"all_reduce", "-transport", "nccl", "-tune"}},
		{"these are 3 ranks and 2 GPUs", []string{"all_reduce", "-compare", "nccl", "-ranks", "3"}},
		{"-nccl x: only -compare", []string{"all_reduce", "-nccl", "x"}},
		{"-graph -1", []string{"all_reduce", "-graph", "-1"}},
		{"-algo two_level: there are all_reduce: ll", []string{"all_reduce", "-algo", "two_level"}},
		{"-algo halving: there are all_reduce: ll", []string{"all_reduce", "-algo", "halving"}},
		{"-register: only memory of GPUs", []string{"all_reduce", "-register", "-device", "cpu"}},
		{"-tune and -compare", []string{"all_reduce", "-tune", "-compare", "nccl"}},
		{"-tune tries all", []string{"all_reduce", "-tune", "-algo", "ring"}},
		{"none of these collectives has a table", []string{"sendrecv", "-tune"}},
	} {
		o := onSim(t, 2, c.args...)
		require.Equal(t, 2, o.code, o.stderr)
		require.Contains(t, o.stderr, c.says)
	}
}

// TestNoNCCL looks for a library where none can be.
func TestNoNCCL(t *testing.T) {
	o := onSim(t, 2, "all_reduce", "-threads", "-transport", "inproc", "-compare", "nccl", "-nccl", t.TempDir()+"/none.so")
	require.Equal(t, 1, o.code)
	require.Contains(t, o.stderr, "no NCCL library: searched")
}
