//go:build unix

package gloo_test

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	// whole asks for all sizes and mixes, and for a Python with PyTorch.
	whole = flag.Bool("torch", false, "run the whole matrix of jobs with ranks of PyTorch")
	// every asks for more than CI has time for.
	every = flag.Bool("every", false, "with -torch, run the operations on long tensors in every mix of every size")
	seed  = flag.Uint64("seed", rand.Uint64(), "seed of the order of operations")
)

// rankPy is testdata/rank.py, which goes wherever this program goes.
//
//go:embed testdata/rank.py
var rankPy []byte

// torch is a process of testdata/rank.py, which forks ranks. It imports PyTorch once for all of them.
type torch struct {
	version string
	socket  string
	cmd     *exec.Cmd
	until   io.Closer // the process ends with it
}

// serverState is the processes that all tests share, one for each version, and what their jobs took.
type serverState struct {
	sync.Mutex
	torches []*torch
	err     error // of a Python that COLLIGO_TEST_PYTHON names
	tried   bool
	jobs    int
	ranks   int
	cpu     time.Duration // of all ranks
}

var server serverState

// eachTorch runs a test with each PyTorch: those of the Pythons that COLLIGO_TEST_PYTHON lists, or else Debian's or the path's. Without
// one the test is skipped, unless the whole matrix is asked for.
func eachTorch(t *testing.T, f func(t *testing.T, p *torch)) {
	t.Helper()
	if testing.Short() && !*whole {
		t.Skip("jobs with ranks of PyTorch take long")
	}
	torches, err := server.find()
	require.NoError(t, err)
	if len(torches) == 0 {
		require.False(t, *whole, "no Python with PyTorch here")
		t.Skip("no Python with PyTorch here; Debian has it as python3-torch, and COLLIGO_TEST_PYTHON names another")
	}
	t.Parallel()
	for _, p := range torches {
		t.Run("PyTorch "+p.version, func(t *testing.T) {
			t.Parallel()
			f(t, p)
		})
	}
}

// find starts the processes at the first call.
func (s *serverState) find() ([]*torch, error) {
	s.Lock()
	defer s.Unlock()
	if s.tried {
		return s.torches, s.err
	}
	s.tried = true
	if list := os.Getenv("COLLIGO_TEST_PYTHON"); list != "" {
		for _, python := range filepath.SplitList(list) {
			p, err := startTorch(python)
			if s.err = err; err != nil {
				return nil, err
			}
			s.torches = append(s.torches, p)
		}
		return s.torches, nil
	}
	for _, python := range []string{"/usr/bin/python3", "python3"} {
		if p, err := startTorch(python); err == nil {
			s.torches = append(s.torches, p)
			break
		}
	}
	return s.torches, nil
}

// count adds a job to what all took.
func (s *serverState) count(ranks []ended) {
	s.Lock()
	defer s.Unlock()
	s.jobs++
	s.ranks += len(ranks)
	for _, e := range ranks {
		s.cpu += e.cpu
	}
}

func startTorch(python string) (*torch, error) {
	dir, err := os.MkdirTemp("", "colligo")
	if err != nil {
		return nil, err
	}
	p := &torch{socket: filepath.Join(dir, "ranks")}
	program := filepath.Join(dir, "rank.py")
	if err := os.WriteFile(program, rankPy, 0o600); err != nil {
		return nil, err
	}
	p.cmd = exec.Command(python, program, p.socket)
	p.cmd.Env = append(os.Environ(), "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1", "USE_LIBUV=0",
		// Ranks keep the memory of long tensors, all threads in one heap. To get it from the system anew takes long.
		"MALLOC_ARENA_MAX=1", "MALLOC_MMAP_THRESHOLD_=4294967296", "MALLOC_TRIM_THRESHOLD_=68719476736", "MALLOC_TOP_PAD_=67108864")
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	p.until = in
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", python, err, p.cmd.Wait())
	}
	p.version = strings.TrimSpace(strings.TrimPrefix(line, "PyTorch "))
	return p, nil
}

// stop ends the shared processes, and says what their jobs took.
func (s *serverState) stop() {
	s.Lock()
	defer s.Unlock()
	for _, p := range s.torches {
		p.until.Close()
		_ = p.cmd.Wait() // its ranks have told how they ended
		os.RemoveAll(filepath.Dir(p.socket))
	}
	if s.jobs > 0 {
		fmt.Printf("%d jobs of %d ranks took %v of processors\n", s.jobs, s.ranks, s.cpu.Round(time.Second))
	}
}

// has reports whether the version is a given one or a later one.
func (p *torch) has(major, minor int) bool {
	var x, y int
	_, _ = fmt.Sscanf(p.version, "%d.%d", &x, &y) // zeros are old
	return x > major || x == major && y >= minor
}

// ended is what became of a rank.
type ended struct {
	lines []string // of its results, or its error
	code  int      // minus a signal
	out   string
	waits time.Duration // from the begin of the call that failed to its error
	cpu   time.Duration
}

// keep takes a line of a rank's output.
func (e *ended) keep(line string) {
	line = strings.TrimSpace(line)
	if after, ok := strings.CutPrefix(line, "waited "); ok {
		e.waits = asSeconds(after)
		return
	}
	e.out += line + "\n"
	if strings.HasPrefix(line, "result ") || strings.HasPrefix(line, "error ") || line == "over" {
		e.lines = append(e.lines, line)
	}
}

func asSeconds(s string) time.Duration {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return time.Hour // no test takes it for a short time
	}
	return time.Duration(v * float64(time.Second))
}

// inPython runs a rank of PyTorch until it ends. The end of the context kills it.
func (p *torch) inPython(ctx context.Context, path string, env map[string]string) (ended, error) {
	e := ended{code: -1}
	conn, err := net.Dial("unix", p.socket)
	if err != nil {
		return e, err
	}
	defer conn.Close()
	request, err := json.Marshal(map[string]any{"path": path, "env": env})
	if err != nil {
		return e, err
	}
	if _, err := conn.Write(append(request, '\n')); err != nil {
		return e, err
	}
	lines := bufio.NewReader(conn)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return e, fmt.Errorf("the rank has not told how it ended: %w", err)
		}
		word, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch word {
		case "pid":
			if n, _ := strconv.Atoi(value); n > 0 {
				stop := context.AfterFunc(ctx, func() { syscall.Kill(n, syscall.SIGKILL) })
				defer stop()
			}
		case "cpu":
			e.cpu = asSeconds(value)
		case "exit":
			e.code, err = strconv.Atoi(value)
			return e, err
		default:
			e.keep(line)
		}
	}
}

// inGo runs a rank in Go until it ends. The end of the context kills it.
func inGo(ctx context.Context, path string, env map[string]string) (ended, error) {
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), "GLOO_RANK_OPS="+path)
	for k, v := range env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	out, err := os.CreateTemp("", "rank")
	if err != nil {
		return ended{}, err
	}
	defer os.Remove(out.Name())
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return ended{}, err
	}
	_ = cmd.Wait() // the exit code tells
	state := cmd.ProcessState
	e := ended{code: state.ExitCode(), cpu: state.UserTime() + state.SystemTime()}
	if s, ok := state.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		e.code = -int(s.Signal())
	}
	b, err := os.ReadFile(out.Name())
	for line := range strings.Lines(string(b)) {
		e.keep(line)
	}
	return e, err
}
