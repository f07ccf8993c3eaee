//go:build unix

package gloo_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/internal/freeport"
)

// job is ranks of both languages that carry out the same operations.
type job struct {
	torch *torch
	size  int
	inGo  func(rank int) bool
	ops   []string
	limit time.Duration     // of one operation
	env   map[string]string // of all ranks
	// contexts is how many contexts the job has; 0 is one.
	contexts int
}

// run starts a job and waits for all of its ranks.
func (j *job) run(t *testing.T) []ended {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ops")
	require.NoError(t, os.WriteFile(path, []byte(strings.Join(j.ops, "\n")+"\n"), 0o600))
	port := freeport.Port(t, "127.0.0.1")
	if j.limit == 0 {
		j.limit = 60 * time.Second
	}
	all, errs := make([]ended, j.size), make([]error, j.size)
	var wg sync.WaitGroup
	for rank := range j.size {
		env := map[string]string{"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": fmt.Sprint(port), "RANK": fmt.Sprint(rank), "WORLD_SIZE": fmt.Sprint(j.size),
			"GLOO_SOCKET_IFNAME": repeated("lo", j.contexts), "GLOO_RANK_INTERFACES": repeated("127.0.0.1", j.contexts), "TORCH": j.torch.version,
			"LIMIT": fmt.Sprint(j.limit.Seconds())}
		for k, v := range j.env {
			env[k] = v
		}
		run := j.torch.inPython
		if j.inGo(rank) {
			run = inGo
		}
		wg.Go(func() { all[rank], errs[rank] = run(path, env, 6*j.limit) })
	}
	wg.Wait()
	for rank, err := range errs {
		require.NoError(t, err, "rank %d: %s", rank, all[rank].out)
	}
	return all
}

// repeated is a list of one name, at least once.
func repeated(name string, n int) string { return name + strings.Repeat(","+name, max(n, 1)-1) }

// results are the lines of the ranks of a job that went well, by operation.
func (j *job) results(t *testing.T) []map[string]string {
	t.Helper()
	all := make([]map[string]string, j.size)
	ranks := j.run(t)
	for rank, e := range ranks {
		if e.code != 0 || len(e.lines) != len(j.ops)+1 {
			require.Fail(t, "ranks have failed", j.fates(ranks))
		}
		all[rank] = map[string]string{}
		for i, op := range j.ops {
			all[rank][op] = e.lines[i]
		}
	}
	return all
}

// fates says of each rank how it ended: the operation it was in, and what it has told besides results.
func (j *job) fates(ranks []ended) string {
	var b strings.Builder
	for rank, e := range ranks {
		done, at, told := 0, "the end", ""
		for line := range strings.Lines(e.out) {
			if strings.HasPrefix(line, "result ") {
				done++
			} else {
				told += "\n\t" + strings.TrimSpace(line)
			}
		}
		if done < len(j.ops) {
			at = j.ops[done]
		}
		fmt.Fprintf(&b, "rank %d (in Go: %v): exit code %d after %d of %d operations, at %s%s\n", rank, j.inGo(rank), e.code, done, len(j.ops), at, told)
	}
	return b.String()
}

func noneInGo(int) bool { return false }

// equal compares the results of a job, whose ranks are in Go as inGo tells, with the results of the same operations in Python alone.
func (j *job) equal(t *testing.T, want []map[string]string, ops []string, inGo func(int) bool) {
	t.Helper()
	mixed := *j
	mixed.inGo, mixed.ops = inGo, ops
	for rank, got := range mixed.results(t) {
		for _, op := range ops {
			if want[rank][op] != got[op] {
				t.Errorf("rank %d (in Go: %v), %s: %s, without a rank in Go %s", rank, inGo(rank), op, got[op], want[rank][op])
			}
		}
	}
}

// deal returns every n-th operation from one on.
func deal(ops []string, from, n int) []string {
	var some []string
	for i := from; i < len(ops); i += n {
		some = append(some, ops[i])
	}
	return some
}

// TestTorch holds every result of every rank in mixed jobs to that of a job without a rank in Go, byte by byte. With -torch there
// are all mixes of jobs of 2 to 5 ranks. Each mix has all operations on short tensors; those on long ones are dealt out to the sizes,
// and to the mixes of a size. Without it there is one mix of 3 ranks.
func TestTorch(t *testing.T) {
	p := findTorch(t)
	for size := 2; size <= 5; size++ {
		if size != 3 && !*whole {
			continue
		}
		l := &opList{torch: p, size: size}
		if !*whole {
			l.small(33)
			j := &job{torch: p, size: size, inGo: noneInGo, ops: l.ops}
			j.equal(t, j.results(t), l.ops, func(r int) bool { return r != 1 })
			continue
		}
		t.Run(fmt.Sprintf("%d ranks", size), func(t *testing.T) {
			l.small(0, 1, 33, 1001)
			short := len(l.ops)
			l.large()
			l.ops = append(l.ops[:short:short], deal(l.ops[short:], size-2, 4)...)
			j := &job{torch: p, size: size, inGo: noneInGo, ops: l.ops}
			want := j.results(t)
			mixes := 1<<size - 1
			for mix := 1; mix <= mixes; mix++ { // bit r is whether rank r is in Go
				t.Run(fmt.Sprintf("in Go %0*b", size, mix), func(t *testing.T) {
					ops := append(append([]string{}, l.ops[:short]...), deal(l.ops[short:], mix-1, mixes)...)
					j.equal(t, want, ops, func(r int) bool { return mix>>r&1 == 1 })
				})
			}
		})
	}
}

// TestTorchContexts has a job of two contexts.
func TestTorchContexts(t *testing.T) {
	j := &job{torch: findTorch(t), size: 3, inGo: noneInGo, contexts: 2, ops: []string{"all_reduce float32 1003 0 sum 0", "broadcast int64 33 1 sum 1",
		"ring float32 100 3 sum 2", "ring float32 100 4 sum 3", "asynchronous float32 5000 0 sum 4", "monitored_barrier int8 1 0 sum 5", "all_gather float16 33 0 sum 6"}}
	j.equal(t, j.results(t), j.ops, func(r int) bool { return r == 1 })
}

// TestTorchRandom runs 200 operations in random order.
func TestTorchRandom(t *testing.T) {
	p := findTorch(t)
	seed := rand.Uint64()
	t.Log("seed", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	l := &opList{torch: p, size: 3}
	l.small(0, 1, 33, 1001)
	j := &job{torch: p, size: 3, inGo: noneInGo}
	for range 200 {
		j.ops = append(j.ops, l.ops[rng.IntN(len(l.ops))])
	}
	j.equal(t, j.results(t), j.ops, func(r int) bool { return r != 1 })
}

// TestTorchFaults lets one rank die, stand still, leave out a call, or call with another length or type, or something else. All
// others end with an error in time. No process of PyTorch aborts.
func TestTorchFaults(t *testing.T) {
	p := findTorch(t)
	for _, fault := range []string{"die", "stop", "skip", "longer", "retyped", "other"} {
		for _, inGo := range []bool{true, false} {
			if !*whole && fault != "die" {
				continue // the others take a deadline, or more
			}
			t.Run(fmt.Sprintf("%s, in Go %v", fault, inGo), func(t *testing.T) {
				t.Parallel()
				const culprit = 1
				j := &job{torch: p, size: 3, limit: 5 * time.Second, inGo: func(r int) bool { return (r == culprit) == inGo },
					ops: []string{"all_reduce float32 10 0 sum 0", fault + " float32 10 1 sum 1", "all_reduce float32 1000 0 sum 2"}}
				start := time.Now()
				for rank, e := range j.run(t) {
					if rank == culprit && (fault == "die" || fault == "stop") {
						require.Equal(t, -9, e.code, "the rank at fault: %s", e.out)
						continue
					}
					require.Equal(t, 3, e.code, "rank %d (in Go: %v): %s", rank, j.inGo(rank), e.out)
				}
				require.Less(t, time.Since(start), 8*j.limit)
			})
		}
	}
}
