//go:build unix

package gloo_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
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
	// atOnce has all ranks start at once. Else rank 0 starts first, and the others when its store listens. A rank of PyTorch whose
	// connection is refused tries again only after a second.
	atOnce bool
	// still is a rank that stands still, and is killed when all others have ended. 0 is none.
	still int
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
	ctx, cancel := context.WithTimeout(context.Background(), 6*j.limit)
	defer cancel()
	halt, kill := context.WithCancel(ctx)
	defer kill()
	turn := make(chan struct{}) // of the ranks besides 0
	if j.atOnce {
		close(turn)
	}
	var wg, halted sync.WaitGroup
	for rank := range j.size {
		env := map[string]string{"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "RANK": fmt.Sprint(rank), "WORLD_SIZE": fmt.Sprint(j.size),
			"GLOO_SOCKET_IFNAME": repeated("lo", j.contexts), "GLOO_RANK_INTERFACES": repeated("127.0.0.1", j.contexts), "TORCH": j.torch.version,
			"LIMIT": fmt.Sprint(j.limit.Seconds())}
		for k, v := range j.env {
			env[k] = v
		}
		run := j.torch.inPython
		if j.inGo(rank) {
			run = inGo
		}
		if j.still > 0 && rank == j.still {
			halted.Go(func() { all[rank], errs[rank] = run(halt, path, env) })
			continue
		}
		wg.Go(func() {
			if rank > 0 {
				<-turn
			}
			all[rank], errs[rank] = run(ctx, path, env)
		})
	}
	if !j.atOnce {
		awaitStore(ctx, net.JoinHostPort("127.0.0.1", port))
		close(turn)
	}
	wg.Wait()
	kill()
	halted.Wait()
	server.count(all)
	for rank, err := range errs {
		require.NoError(t, err, "rank %d: %s", rank, all[rank].out)
	}
	return all
}

// awaitStore returns when a store accepts connections at an address, or after some seconds, in which rank 0 may have failed.
func awaitStore(ctx context.Context, address string) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for ctx.Err() == nil {
		if c, err := net.Dial("tcp", address); err == nil {
			c.Close()
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
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

// shuffled returns operations in an order of the seed, which differs between jobs.
func shuffled(job int, lists ...[]string) []string {
	ops := slices.Concat(lists...)
	rng := rand.New(rand.NewPCG(*seed, uint64(job)))
	rng.Shuffle(len(ops), func(i, k int) { ops[i], ops[k] = ops[k], ops[i] })
	return ops
}

// TestTorch holds every result of every rank in mixed jobs to that of a job without a rank in Go, byte by byte. Each job runs its
// operations, which are more than 200, in a random order of its own under one seed. Without -torch there is one mix of 3 ranks. With it
// there are all mixes of jobs of 2 to 5 ranks. Each mix has all operations on short tensors. Operations on long tensors are dealt out
// to the sizes, and to the mixes of a size. With -every each mix has them all.
func TestTorch(t *testing.T) {
	eachTorch(t, func(t *testing.T, p *torch) {
		t.Log("seed", *seed)
		if !*whole {
			l := &opList{torch: p, size: 3}
			l.short(33, 1001)
			j := &job{torch: p, size: 3, inGo: noneInGo, ops: shuffled(0, l.ops)}
			j.equal(t, j.results(t), shuffled(1, l.ops), func(r int) bool { return r != 1 })
			return
		}
		for size := 5; size >= 2; size-- { // the longest first
			t.Run(fmt.Sprintf("%d ranks", size), func(t *testing.T) {
				t.Parallel()
				mixesOf(t, p, size)
			})
		}
	})
}

// mixesOf runs all mixes of one size.
func mixesOf(t *testing.T, p *torch, size int) {
	l := &opList{torch: p, size: size}
	l.short(0, 1, 33)
	n := len(l.ops)
	l.long()
	require.Greater(t, n, 200)
	short, long := l.ops[:n:n], l.ops[n:]
	mixes := 1<<size - 1
	of := func(mix int) []string { return deal(long, mix-1, mixes) }
	if *every {
		of = func(int) []string { return long }
	} else {
		long = deal(long, size-2, 4)
	}
	j := &job{torch: p, size: size, inGo: noneInGo, ops: shuffled(size<<8, short, long)}
	want := j.results(t)
	for mix := 1; mix <= mixes; mix++ { // bit r is whether rank r is in Go
		t.Run(fmt.Sprintf("in Go %0*b", size, mix), func(t *testing.T) {
			t.Parallel()
			j.equal(t, want, shuffled(size<<8|mix, short, of(mix)), func(r int) bool { return mix>>r&1 == 1 })
		})
	}
}

// TestTorchContexts has a job of two contexts.
func TestTorchContexts(t *testing.T) {
	eachTorch(t, func(t *testing.T, p *torch) {
		j := &job{torch: p, size: 3, inGo: noneInGo, contexts: 2, ops: []string{"all_reduce float32 1003 0 sum 0", "broadcast int64 33 1 sum 1",
			"ring float32 100 3 sum 2", "ring float32 100 4 sum 3", "asynchronous float32 5000 0 sum 4", "monitored_barrier int8 1 0 sum 5", "all_gather float16 33 0 sum 6"}}
		j.equal(t, j.results(t), j.ops, func(r int) bool { return r == 1 })
	})
}

// TestTorchFaults lets one rank die, stand still, leave out a call, or call with another length or type, or something else. Each
// other rank ends with an error when its limit has passed, or before. No process of PyTorch aborts.
func TestTorchFaults(t *testing.T) {
	eachTorch(t, func(t *testing.T, p *torch) {
		// Ranks that wait for a deadline leave the processors alone. So several of these jobs run in the one place that this test has.
		slots := make(chan struct{}, 4)
		var wg sync.WaitGroup
		defer wg.Wait()
		for _, fault := range []string{"stop", "other", "skip", "longer", "retyped", "die"} { // the longest first
			if !*whole && fault != "die" {
				continue // the others take a deadline, or more
			}
			for _, inGo := range []bool{true, false} {
				slots <- struct{}{}
				wg.Go(func() {
					defer func() { <-slots }()
					t.Run(fmt.Sprintf("%s, in Go %v", fault, inGo), func(t *testing.T) { holdsFault(t, p, fault, inGo) })
				})
			}
		}
	})
}

// holdsFault runs a job with one rank at fault, in Go or of PyTorch, among ranks of the other kind.
func holdsFault(t *testing.T, p *torch, fault string, inGo bool) {
	const culprit = 1
	j := &job{torch: p, size: 3, limit: 10 * time.Second, atOnce: true, inGo: func(r int) bool { return (r == culprit) == inGo },
		ops: []string{"all_reduce float32 10 0 sum 0", fault + " float32 10 1 sum 1", "all_reduce float32 1000 0 sum 2"}}
	if fault == "stop" {
		j.still = culprit
	}
	ranks := j.run(t)
	for rank, e := range ranks {
		if rank == culprit && (fault == "die" || fault == "stop") {
			require.Equal(t, -9, e.code, "the rank at fault: %s", e.out)
			continue
		}
		require.Equal(t, 3, e.code, j.fates(ranks))
		require.Less(t, e.waits, j.limit+10*time.Second, j.fates(ranks))
		require.Positive(t, e.waits)
		t.Logf("rank %d (in Go: %v) has its error after %.2f s", rank, j.inGo(rank), e.waits.Seconds())
	}
}
