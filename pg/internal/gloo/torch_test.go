package gloo_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// torch is a Python with PyTorch on this machine.
type torch struct{ python, version string }

// findTorch returns a Python with PyTorch. COLLIGO_TEST_PYTHON names one, else Debian's and the path's are tried. Without one the
// test is skipped.
func findTorch(t *testing.T) torch {
	t.Helper()
	if testing.Short() {
		t.Skip("jobs with ranks of PyTorch take long")
	}
	for _, python := range []string{os.Getenv("COLLIGO_TEST_PYTHON"), "/usr/bin/python3", "python3"} {
		if python == "" {
			continue
		}
		out, err := exec.Command(python, "-c", "import torch, torch.distributed as d; assert d.is_gloo_available() if hasattr(d, 'is_gloo_available') else True; print(torch.__version__)").Output()
		if err == nil {
			return torch{python, strings.TrimSpace(string(out))}
		}
	}
	t.Skip("no Python with PyTorch here; Debian has it as python3-torch, and COLLIGO_TEST_PYTHON names another")
	return torch{}
}

// old reports whether it is PyTorch 1.13.
func (p torch) old() bool { return strings.HasPrefix(p.version, "1.13") }

// job is ranks of both languages that carry out the same operations.
type job struct {
	torch
	size  int
	inGo  func(rank int) bool
	ops   []string
	limit time.Duration // of one operation
}

// ended is what became of a rank.
type ended struct {
	lines []string // of its results, or its error
	code  int
	out   string
}

// run starts a job and waits for all of its ranks.
func (j *job) run(t *testing.T) []ended {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ops")
	require.NoError(t, os.WriteFile(path, []byte(strings.Join(j.ops, "\n")+"\n"), 0o600))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	if j.limit == 0 {
		j.limit = 60 * time.Second
	}
	all := make([]ended, j.size)
	var wg sync.WaitGroup
	for rank := range j.size {
		env := append(os.Environ(), "MASTER_ADDR=127.0.0.1", fmt.Sprint("MASTER_PORT=", port), fmt.Sprint("RANK=", rank),
			fmt.Sprint("WORLD_SIZE=", j.size), "GLOO_SOCKET_IFNAME=lo", "USE_LIBUV=0", "OMP_NUM_THREADS=1", "TORCH="+j.version,
			fmt.Sprint("LIMIT=", j.limit.Seconds()))
		cmd := exec.Command(j.python, "testdata/rank.py", path)
		if j.inGo(rank) {
			cmd = exec.Command(os.Args[0])
			env = append(env, "GLOO_RANK_OPS="+path)
		}
		cmd.Env = env
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		require.NoError(t, cmd.Start())
		stop := time.AfterFunc(j.limit+2*time.Minute, func() { cmd.Process.Kill() })
		wg.Go(func() {
			_ = cmd.Wait() // the exit code tells
			stop.Stop()
			e := ended{code: cmd.ProcessState.ExitCode(), out: out.String()}
			for line := range strings.Lines(e.out) {
				if f := strings.TrimSpace(line); strings.HasPrefix(f, "result ") || strings.HasPrefix(f, "error ") || f == "over" {
					e.lines = append(e.lines, f)
				}
			}
			all[rank] = e
		})
	}
	wg.Wait()
	return all
}

// results are the lines of the ranks of a job that went well.
func (j *job) results(t *testing.T) [][]string {
	t.Helper()
	var all [][]string
	for rank, e := range j.run(t) {
		require.Zero(t, e.code, "rank %d (in Go: %v): %s", rank, j.inGo(rank), e.out)
		require.Len(t, e.lines, len(j.ops)+1, "rank %d: %s", rank, e.out)
		all = append(all, e.lines)
	}
	return all
}

func noneInGo(int) bool { return false }

// operations are those that every version has, over all types and lengths that matter, and some more of the newer ones.
func operations(p torch, size int) []string {
	var ops []string
	add := func(name, dtype string, n, root int, op string) {
		ops = append(ops, fmt.Sprintf("%s %s %d %d %s", name, dtype, n, root, op))
	}
	types := []string{"float32", "float64", "float16", "int8", "uint8", "int32", "int64"}
	if !p.old() {
		types = append(types, "bfloat16")
	}
	for i, d := range types {
		for k, n := range []int{0, 1, 33, 1001} {
			for _, op := range []string{"sum", "product", "min", "max"} {
				add("all_reduce", d, n, 0, op)
			}
			add("reduce", d, n, i+k, "sum")
			add("broadcast", d, n, i+k, "sum")
			if n > 0 { // 1.13 divides by zero in some of these
				add("all_gather", d, n, 0, "sum")
				add("gather", d, n, i+k, "sum")
				add("scatter", d, n, i+k, "sum")
				add("all_to_all_single", d, n, 0, "sum")
				add("all_to_all_uneven", d, n, 0, "sum")
			}
			add("ring", d, n, i, "sum")
		}
	}
	for i, op := range []string{"band", "bor", "bxor"} {
		add("all_reduce", []string{"int32", "uint8", "int64"}[i], 1000, 0, op)
	}
	for root := range size {
		add("reduce", "float32", 1_000_003, root, "sum")
		add("broadcast", "float32", 1_000_003, root, "sum")
	}
	add("all_reduce", "float16", 1_000_003, 0, "sum")
	add("all_reduce", "float32", 5_000_000, 0, "sum")
	add("reduce", "float32", 5_000_000, 1, "sum")
	add("all_gather", "float32", 1_000_003, 0, "sum")
	add("all_to_all_single", "float32", 300_001, 0, "sum")
	add("all_reduce_coalesced", "float32", 100_003, 0, "sum")
	add("all_gather_coalesced", "float32", 1003, 0, "sum")
	add("async", "float32", 50_001, 0, "sum")
	add("any", "float32", 1003, 0, "sum")
	add("object", "int64", 1, 0, "sum")
	add("group", "float32", 1003, 1, "sum")
	add("barrier", "int8", 1, 0, "sum")
	add("monitored_barrier", "int8", 1, 0, "sum")
	if !p.old() {
		add("reduce_scatter_tensor", "float32", 1003, 0, "sum")
	}
	return ops
}

// mixes are the ranks in Go of jobs of a size.
func mixes(size int) map[string]func(int) bool {
	all := map[string]func(int) bool{
		"first in Go": func(r int) bool { return r == 0 },
		"last in Go":  func(r int) bool { return r == size-1 },
	}
	if size > 2 {
		all["all but one in Go"] = func(r int) bool { return r != 1 }
		all["odd in Go"] = func(r int) bool { return r%2 == 1 }
	}
	return all
}

// TestTorch holds every result of every rank in mixed jobs to that of a job without a rank in Go, byte by byte.
func TestTorch(t *testing.T) {
	p := findTorch(t)
	t.Log("PyTorch", p.version)
	for size := 2; size <= 5; size++ {
		t.Run(fmt.Sprintf("%d ranks", size), func(t *testing.T) {
			j := &job{torch: p, size: size, inGo: noneInGo, ops: operations(p, size)}
			want := j.results(t)
			for name, mix := range mixes(size) {
				t.Run(name, func(t *testing.T) {
					mixed := *j
					mixed.inGo = mix
					equal(t, &mixed, want, mixed.results(t))
				})
			}
		})
	}
}

func equal(t *testing.T, j *job, want, got [][]string) {
	t.Helper()
	for rank := range want {
		for i := range want[rank] {
			if want[rank][i] != got[rank][i] {
				what := "the end"
				if i < len(j.ops) {
					what = j.ops[i]
				}
				t.Errorf("rank %d (in Go: %v), %s: %s, without a rank in Go %s", rank, j.inGo(rank), what, got[rank][i], want[rank][i])
			}
		}
	}
}

// TestTorchRandom runs 200 operations in random order.
func TestTorchRandom(t *testing.T) {
	p := findTorch(t)
	seed := rand.Uint64()
	t.Log("seed", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	j := &job{torch: p, size: 3, inGo: noneInGo}
	pool := operations(p, 3)
	for range 200 {
		j.ops = append(j.ops, pool[rng.IntN(len(pool))])
	}
	want := j.results(t)
	mixed := *j
	mixed.inGo = func(r int) bool { return r != 1 }
	equal(t, &mixed, want, mixed.results(t))
}

// TestTorchFaults lets one rank die, stand still, or call with another length. All others end with an error in time. No process of
// PyTorch aborts.
func TestTorchFaults(t *testing.T) {
	p := findTorch(t)
	for _, fault := range []string{"die", "sleep", "longer"} {
		for _, inGo := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, in Go %v", fault, inGo), func(t *testing.T) {
				t.Parallel()
				const culprit = 1
				j := &job{torch: p, size: 3, limit: 5 * time.Second, ops: []string{"all_reduce float32 10 0 sum", fault + " float32 10 1 sum"},
					inGo: func(r int) bool { return (r == culprit) == inGo }}
				start := time.Now()
				for rank, e := range j.run(t) {
					if rank == culprit && fault != "longer" {
						continue
					}
					require.Equal(t, 3, e.code, "rank %d (in Go: %v): %s", rank, j.inGo(rank), e.out)
				}
				require.Less(t, time.Since(start), 60*time.Second)
			})
		}
	}
}
