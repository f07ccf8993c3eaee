package failures

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/colligo-go/colligo/internal/freeport"
)

// limits of the ranks: longer than the 5 s after which a rank that waits says so, and short for a test.
const limits = 8

// process is one rank of a job.
type process struct {
	rank  int
	role  string
	env   []string                        // besides, or in place of, those of the job
	after func(t *testing.T, port string) // it is started
}

// heard is one line that a rank has said.
type heard struct {
	rank  int
	after time.Duration // since its process began
	line  string
}

// outcome is what a job has said, and how its ranks ended.
type outcome struct {
	mu    sync.Mutex
	lines []heard
	codes map[int]string // by rank
	ended map[int]time.Duration
}

// run starts all processes, waits for them and returns what they said.
func (f *failure) run(t *testing.T) *outcome {
	t.Helper()
	port := freeport.Port(t, "127.0.0.1")
	env := append(os.Environ(), "WORLD_SIZE="+strconv.Itoa(f.size), "MASTER_ADDR=127.0.0.1", "MASTER_PORT="+port,
		fmt.Sprintf("COLLIGO_CONNECT_TIMEOUT_SEC=%d", limits), fmt.Sprintf("COLLIGO_TIMEOUT_SEC=%d", limits),
		"COLLIGO_FR_DUMP_TEMP_FILE="+t.TempDir()+"/rank_")
	if f.before != nil {
		env = append(env, f.before(t, port)...)
	}
	o := &outcome{codes: map[int]string{}, ended: map[int]time.Duration{}}
	var all, others sync.WaitGroup
	for i, p := range f.processes {
		if p.after != nil {
			p.after(t, port)
		}
		cmd, r, err := start(append(append(env[:len(env):len(env)], roleVariable+"="+p.role, "RANK="+strconv.Itoa(p.rank)), p.env...))
		if !assert.NoError(t, err) {
			break
		}
		began := time.Now()
		stop := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
		ended := others.Done
		if p.role == "stopped" && p.rank != 0 { // it never ends by itself
			ended = func() {}
			all.Go(func() {
				others.Wait()
				_ = cmd.Process.Kill()
			})
		} else {
			others.Add(1)
		}
		all.Go(func() {
			defer stop.Stop()
			defer ended()
			o.hear(p.rank, began, r)
			err := cmd.Wait()
			o.end(i, began, err)
		})
	}
	all.Wait()
	return o
}

// start starts this program as a rank, and returns what it says.
func start(env []string) (*exec.Cmd, io.ReadCloser, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = env
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer w.Close()
	cmd.Stdout, cmd.Stderr = w, w
	return cmd, r, cmd.Start()
}

func (o *outcome) hear(rank int, began time.Time, r io.ReadCloser) {
	defer r.Close()
	for s := bufio.NewScanner(r); s.Scan(); {
		o.mu.Lock()
		o.lines = append(o.lines, heard{rank, time.Since(began), s.Text()})
		o.mu.Unlock()
	}
}

func (o *outcome) end(i int, began time.Time, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended[i] = time.Since(began)
	o.codes[i] = "exit status 0"
	if err != nil {
		o.codes[i] = err.Error()
	}
}

// soon is when a rank's processes have said for what they wait: a second before they give up, if they do so late.
func (o *outcome) soon(f *failure, rank int) time.Duration {
	limit := soon
	for i, p := range f.processes {
		if p.rank == rank {
			limit = max(limit, o.ended[i]-time.Second)
		}
	}
	return limit
}

// until returns a rank's lines up to a time.
func (o *outcome) until(rank int, limit time.Duration) string {
	var all []string
	for _, h := range o.lines {
		if h.rank == rank && h.after <= limit {
			all = append(all, h.line)
		}
	}
	return strings.Join(all, "\n")
}

// String is for a test that fails.
func (o *outcome) String() string {
	var b strings.Builder
	for _, h := range o.lines {
		fmt.Fprintf(&b, "%5.1fs [%d] %s\n", h.after.Seconds(), h.rank, h.line)
	}
	for i := range len(o.codes) {
		fmt.Fprintf(&b, "%5.1fs process %d: %s\n", o.ended[i].Seconds(), i, o.codes[i])
	}
	return b.String()
}
