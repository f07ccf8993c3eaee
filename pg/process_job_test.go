package pg_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/internal/freeport"
)

// patience is how long a test waits for anything of a process. It is also the limit of what such a test does not wait out.
const patience = 60 * time.Second

// margin is how much longer than its limit a call may take to name the rank that is missing. On a machine with nothing else to do it is
// beyond.
const (
	margin = 10 * time.Second
	beyond = time.Second
)

var everyFault = flag.Bool("pg.faults", false, "run every cell of the tables of faults, print them, and hold limits to within a second")

// lateness is how much longer than its limit a call may take here.
func lateness() time.Duration {
	if *everyFault {
		return beyond
	}
	return margin
}

// soon is within what time that is known here which is known at once, long before a limit of patience.
func soon() time.Duration {
	if *everyFault {
		return 5 * beyond
	}
	return patience / 2
}

// job is the processes of one group.
type job struct {
	t     *testing.T
	dir   string // where the processes run; nothing may be left there
	meets string // host:port of the store
	procs []*rankProcess
}

// rankProcess is the test's side of one process.
type rankProcess struct {
	t       *testing.T
	name    string
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	reports chan report
	log     lines
	exit    chan error
}

// lines collects what a process writes to its standard error.
type lines struct {
	sync.Mutex
	b bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.Lock()
	defer l.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.Lock()
	defer l.Unlock()
	return l.b.String()
}

// newJob returns a job without processes. Its test runs beside others.
func newJob(t *testing.T) *job {
	t.Helper()
	return &job{t: t, dir: t.TempDir()}
}

// launch starts size processes with one order, which change may vary by rank.
func launch(t *testing.T, size int, o order, change func(rank int, o *order)) *job {
	t.Helper()
	j := newJob(t)
	if o.Config.Init == "" && o.Config.StoreAt == "" {
		j.meets = freeport.Address(t, "127.0.0.1")
		o.Config.Init = "tcp://" + j.meets
	}
	for rank := range size {
		mine := o
		mine.Config.Rank, mine.Config.Size = rank, size
		if change != nil {
			change(rank, &mine)
		}
		j.start(mine)
	}
	return j
}

// start starts one process more. Env holds variables as NAME=value.
func (j *job) start(o order, env ...string) *rankProcess {
	j.t.Helper()
	if o.Config.ConnectTimeout == 0 {
		o.Config.ConnectTimeout = patience
	}
	text, err := json.Marshal(o)
	require.NoError(j.t, err)
	p := &rankProcess{t: j.t, name: fmt.Sprintf("process %d", len(j.procs)), reports: make(chan report, 100), exit: make(chan error, 1)}
	p.cmd = exec.Command(os.Args[0])
	p.cmd.Env = append(append(cleanEnvironment(), env...), orderVariable+"="+string(text), "TMPDIR="+j.dir)
	p.cmd.Dir, p.cmd.Stderr = j.dir, &p.log
	p.stdin, err = p.cmd.StdinPipe()
	require.NoError(j.t, err)
	stdout, err := p.cmd.StdoutPipe()
	require.NoError(j.t, err)
	require.NoError(j.t, p.cmd.Start())
	go p.read(stdout)
	j.t.Cleanup(func() {
		p.cmd.Process.Kill()
		for range p.reports { // until the pipe ends
		}
		if j.t.Failed() && p.log.String() != "" {
			j.t.Logf("%s: %s", p.name, p.log.String())
		}
	})
	j.procs = append(j.procs, p)
	return p
}

// cleanEnvironment is this process's without what launchers set.
func cleanEnvironment() []string {
	launcher := regexp.MustCompile(`^(RANK|WORLD_SIZE|MASTER_|LOCAL_|GROUP_|PET_|TORCHELASTIC_|OMPI_|PMI_|SLURM_|MPI_)`)
	var env []string
	for _, v := range os.Environ() {
		if !launcher.MatchString(v) {
			env = append(env, v)
		}
	}
	return env
}

func (p *rankProcess) read(stdout io.Reader) {
	d := json.NewDecoder(stdout)
	for {
		var r report
		if err := d.Decode(&r); err != nil {
			break
		}
		p.reports <- r
	}
	p.exit <- p.cmd.Wait()
	close(p.reports)
}

// next waits for a report, which must be the one expected.
func (p *rankProcess) next(at string) report {
	p.t.Helper()
	return p.nextWithin(at, patience)
}

func (p *rankProcess) nextWithin(at string, patience time.Duration) report {
	p.t.Helper()
	select {
	case r, ok := <-p.reports:
		require.True(p.t, ok, "%s has ended before it reported %q: %s", p.name, at, p.log.String())
		require.Equal(p.t, at, r.At, "%s: %s", p.name, r.Err)
		return r
	case <-time.After(patience):
		require.FailNow(p.t, "nothing heard", "%s has not reported %q after %v", p.name, at, patience)
	}
	panic("unreachable")
}

// say gives the process a line to hear.
func (p *rankProcess) say(line string) {
	p.t.Helper()
	_, err := io.WriteString(p.stdin, line+"\n")
	require.NoError(p.t, err)
}

// formed waits until the group has formed in the process.
func (p *rankProcess) formed() {
	p.t.Helper()
	require.Empty(p.t, p.next("init").Err, p.name)
}

// ends expects the process to close its group, to have given everything back and to exit with success.
func (p *rankProcess) ends() {
	p.t.Helper()
	r := p.next("closed")
	require.Empty(p.t, r.Err, p.name)
	require.Empty(p.t, r.Left, "%s has left", p.name)
	p.exits()
}

func (p *rankProcess) exits() {
	p.t.Helper()
	select {
	case err := <-p.exit:
		require.NoError(p.t, err, p.name)
	case <-time.After(patience):
		require.FailNow(p.t, "no end", "%s still runs", p.name)
	}
}

// succeeds expects the whole life of a process to go well.
func (p *rankProcess) succeeds() {
	p.t.Helper()
	p.formed()
	require.Empty(p.t, p.next("done").Err, p.name)
	p.ends()
}

// refused expects Init to fail and returns its error.
func (p *rankProcess) refused() string {
	p.t.Helper()
	r := p.next("init")
	require.NotEmpty(p.t, r.Err, "%s has joined", p.name)
	require.Empty(p.t, r.Left, "%s has left", p.name)
	p.exits()
	return r.Err
}

// logs waits for a line of the process's log that has all of these.
func (p *rankProcess) logs(parts ...string) {
	p.t.Helper()
	require.Eventually(p.t, func() bool {
		return slices.ContainsFunc(strings.Split(p.log.String(), "\n"), func(line string) bool {
			return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) })
		})
	}, patience, 5*time.Millisecond, "%s logs no line with %q", p.name, parts)
}

// all waits for a report of every process.
func (j *job) all(at string) {
	j.t.Helper()
	for _, p := range j.procs {
		require.Empty(j.t, p.next(at).Err, p.name)
	}
}

// tidy demands that nothing is left in the processes' folder.
func (j *job) tidy() {
	j.t.Helper()
	entries, err := os.ReadDir(j.dir)
	require.NoError(j.t, err)
	require.Empty(j.t, entries)
}

// blamed matches whom an error is about.
var blamed = regexp.MustCompile(`rank (\d+): `)

// namesOnly demands that an error names one rank and no other.
func namesOnly(t *testing.T, text string, rank int) {
	t.Helper()
	found := blamed.FindAllStringSubmatch(text, -1)
	require.NotEmpty(t, found, "nobody is named: %s", text)
	for _, m := range found {
		require.Equal(t, fmt.Sprint(rank), m[1], text)
	}
}
