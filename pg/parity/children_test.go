package parity

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/pg"
)

// Tests in which a rank's process ends run this test binary again, once for each rank.

var (
	childEnd  = flag.String("parity.end", "", "run as a rank's process, in which rank 1 ends in this way")
	childRank = flag.Int("parity.rank", 0, "of a process")
	childDir  = flag.String("parity.dir", "", "folder that the processes share")
)

const opTimeout = 3 * time.Second

// ends are the ways in which rank 1's process ends after its first all-reduce.
var ends = map[string]func(g *pg.Group){
	"clean exit":   func(*pg.Group) { os.Exit(0) },
	"nonzero exit": func(*pg.Group) { os.Exit(1) },
	"abort":        func(*pg.Group) { kill(syscall.SIGABRT) },
	"sigkill":      func(*pg.Group) { kill(syscall.SIGKILL) },
	"sigterm":      func(*pg.Group) { kill(syscall.SIGTERM) },
	"other cases":  func(g *pg.Group) { <-time.After(opTimeout + time.Second) }, // it does nothing at all
}

// lateLimit is the timeout of a program's operations, of which it waits for one until then. The others take a small part of it, however busy
// the machine is.
const lateLimit = 6 * time.Second

// program is what some processes do besides.
type program struct {
	run     func(t *testing.T, g *pg.Group)
	timeout time.Duration // of operations; 0 is the default
	size    int
}

var programs = map[string]program{
	"drop":          {dropGroup, 0, 2},
	"file store":    {leaveAlone, 0, 2},
	"timeout dumps": {lateDumps, lateLimit, 2},
	"stuck dumps":   {stuckDumps, lateLimit, 2},
	"errors dump":   {errorsDump, lateLimit, 2},
	"regroup":       {regroupAlive, time.Minute, 3},
}

func kill(s os.Signal) {
	p, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = p.Signal(s)
	}
	fmt.Fprintln(os.Stderr, s, err)
	select {}
}

// TestChild is one rank of three, or of some that run a program, in a process of its own.
func TestChild(t *testing.T) {
	if *childEnd == "" {
		t.Skip("other tests run this in processes")
	}
	program, ok := programs[*childEnd]
	size, config := 3, pg.Config{Timeout: time.Minute}
	if ok {
		size, config = program.size, pg.Config{Timeout: program.timeout}
	}
	config.Init = fmt.Sprintf("file://%s/store?rank=%d&world_size=%d", *childDir, *childRank, size)
	g, err := pg.Init(t.Context(), config)
	require.NoError(t, err)
	if ok {
		program.run(t, g)
		return
	}
	r := childOf(t, g)
	defer g.Close()
	require.Equal(t, repeat(10, float32(3)), r.summedTen())
	require.NoError(t, g.Barrier(t.Context()), "what each rank has read of the others is read")
	r.meet("through")
	switch *childRank {
	case 1:
		ends[*childEnd](g)
	case 0:
		x := full(r, 10, float32(1))
		ctx, cancel := context.WithTimeout(r.ctx, opTimeout)
		defer cancel()
		began := time.Now()
		err := r.AllReduceAsync(r.ctx, x, colligo.Sum).Wait(ctx)
		require.Regexp(t, "rank 1|ranks 1-2 do not answer", err.Error()) // rank 2 may be held up when it is asked
		require.True(t, errors.Is(err, colligo.ErrPeerLost) || errors.Is(err, colligo.ErrTimeout), "%v", err)
		require.Less(t, time.Since(began), time.Minute/2)
		require.Error(t, r.AllReduce(r.ctx, x, colligo.Sum), "the group has ended")
		values[float32](r, full(r, 10, float32(1))) // the device goes on
	default:
		for g.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		require.Regexp(t, "rank 1|ranks 1-2 do not answer", g.Err().Error())
	}
}

// childOf is a process's rank. It has its tensors on a GPU where there are some, which the processes take in turn, and else on the CPU.
func childOf(t *testing.T, g *pg.Group) *rank {
	if os.Getenv("COLLIGO_GPU") == "" {
		return &rank{Group: g, t: t, ctx: t.Context()}
	}
	d, err := cuda.Open()
	require.NoError(t, err)
	n, err := d.Devices()
	require.NoError(t, err)
	return rankOn(t, g, d, n, 0)
}

// summedTen returns the sums of ten elements of 1 over all ranks.
func (r *rank) summedTen() []float32 {
	x := full(r, 10, float32(1))
	require.NoError(r.t, r.AllReduce(r.ctx, x, colligo.Sum))
	return values[float32](r, x)
}

// endings runs three ranks of which one ends, and expects the others to say which. A wait holds its caller, as in the suite that this
// follows.
func endings(t *testing.T, end string) {
	beside(t)
	if runtime.GOOS == "windows" && (end == "abort" || end == "sigterm") {
		t.Skip("there is no such signal")
	}
	for rank, p := range processes(t, 3, end, t.TempDir(), "TORCH_NCCL_BLOCKING_WAIT=1", "TORCH_NCCL_DUMP_ON_TIMEOUT=0") {
		if rank != 1 {
			require.Zero(t, p.code, "rank %d:\n%s", rank, p.out)
		}
	}
}

// process is how a rank's process has ended.
type process struct {
	code int // -1 for a signal
	out  []byte
}

// processes runs a program in n processes until all have ended.
func processes(t *testing.T, n int, program, dir string, env ...string) []process {
	runs(t, inProcesses)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	all := make([]process, n)
	var ended sync.WaitGroup
	for rank := range n {
		c := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestChild$", "-test.v", "-parity.end="+program,
			fmt.Sprint("-parity.rank=", rank), "-parity.dir="+dir)
		c.Env = append(os.Environ(), env...)
		ended.Go(func() {
			out, _ := c.CombinedOutput()
			all[rank] = process{c.ProcessState.ExitCode(), out}
		})
	}
	ended.Wait()
	return all
}

func TestNCCLErrorsBlockingCleanExit(t *testing.T)   { endings(t, "clean exit") }
func TestNCCLErrorsBlockingNonzeroExit(t *testing.T) { endings(t, "nonzero exit") }
func TestNCCLErrorsBlockingAbort(t *testing.T)       { endings(t, "abort") }
func TestNCCLErrorsBlockingSIGKILL(t *testing.T)     { endings(t, "sigkill") }
func TestNCCLErrorsBlockingSIGTERM(t *testing.T)     { endings(t, "sigterm") }
func TestNCCLErrorsBlockingOtherCases(t *testing.T)  { endings(t, "other cases") }
