//go:build unix

package gloo_test

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"io"
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

// whole asks for all sizes, mixes and lengths, which take a minute; and for a Python with PyTorch.
var whole = flag.Bool("torch", false, "run the whole matrix of jobs with ranks of PyTorch")

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

// serverState is the process that all tests share.
type serverState struct {
	sync.Mutex
	torch *torch
	tried bool
}

var server serverState

// findTorch returns a Python with PyTorch: the one that COLLIGO_TEST_PYTHON names, or else Debian's or the path's. Without one the
// test is skipped, unless the whole matrix is asked for.
func findTorch(t *testing.T) *torch {
	t.Helper()
	if testing.Short() && !*whole {
		t.Skip("jobs with ranks of PyTorch take long")
	}
	server.Lock()
	defer server.Unlock()
	for _, python := range []string{os.Getenv("COLLIGO_TEST_PYTHON"), "/usr/bin/python3", "python3"} {
		if server.tried || python == "" {
			continue
		}
		if p, err := startTorch(python); err == nil {
			server.torch = p
			break
		} else if python == os.Getenv("COLLIGO_TEST_PYTHON") {
			require.NoError(t, err)
		}
	}
	server.tried = true
	if server.torch == nil {
		require.False(t, *whole, "no Python with PyTorch here")
		t.Skip("no Python with PyTorch here; Debian has it as python3-torch, and COLLIGO_TEST_PYTHON names another")
	}
	t.Log("PyTorch", server.torch.version)
	return server.torch
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
	p.cmd.Env = append(os.Environ(), "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1", "USE_LIBUV=0")
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

// stop ends the shared process.
func (s *serverState) stop() {
	s.Lock()
	defer s.Unlock()
	if s.torch != nil {
		s.torch.until.Close()
		_ = s.torch.cmd.Wait() // its ranks have told how they ended
		os.RemoveAll(filepath.Dir(s.torch.socket))
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
}

// keep takes a line of a rank's output.
func (e *ended) keep(line string) {
	e.out += line
	if f := strings.TrimSpace(line); strings.HasPrefix(f, "result ") || strings.HasPrefix(f, "error ") || f == "over" {
		e.lines = append(e.lines, f)
	}
}

// inPython runs a rank of PyTorch until it ends, or the limit has passed.
func (p *torch) inPython(path string, env map[string]string, limit time.Duration) (ended, error) {
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
	var stop *time.Timer
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return e, fmt.Errorf("the rank has not told how it ended: %w", err)
		}
		if pid, ok := strings.CutPrefix(line, "pid "); ok {
			n, _ := strconv.Atoi(strings.TrimSpace(pid))
			if n > 0 {
				stop = time.AfterFunc(limit, func() { syscall.Kill(n, syscall.SIGKILL) })
				defer stop.Stop()
			}
		} else if code, ok := strings.CutPrefix(line, "exit "); ok {
			e.code, err = strconv.Atoi(strings.TrimSpace(code))
			return e, err
		} else {
			e.keep(line)
		}
	}
}

// inGo runs a rank in Go until it ends, or the limit has passed.
func inGo(path string, env map[string]string, limit time.Duration) (ended, error) {
	cmd := exec.Command(os.Args[0])
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
	stop := time.AfterFunc(limit, func() { cmd.Process.Kill() })
	defer stop.Stop()
	_ = cmd.Wait() // the exit code tells
	e := ended{code: cmd.ProcessState.ExitCode()}
	if s, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		e.code = -int(s.Signal())
	}
	b, err := os.ReadFile(out.Name())
	for line := range strings.Lines(string(b)) {
		e.keep(line)
	}
	return e, err
}
