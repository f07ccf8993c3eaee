package pg_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/internal/freeport"
	"github.com/colligo-go/colligo/pg/flight"
	"github.com/colligo-go/colligo/pg/trace"
)

// The columns and rows of the table.
var (
	faults      = []string{"killed", "stopped", "delayed", "calls another", "skips one"}
	faultyCalls = []string{"all_reduce", "small all_reduce", "broadcast", "reduce", "all_gather", "reduce_scatter", "all_to_all", "gather",
		"scatter", "barrier", "send and recv", "recv from any"}
)

// faultLimit is the timeout of operations that wait it out in these tests. Half of it is longer than a busy machine holds a rank up.
const faultLimit = 10 * time.Second

// faultTable is what became of each cell: the longest time until a survivor's error, and what a trace of the dumps calls it.
type faultTable struct {
	sync.Mutex
	cells map[string]string
}

func (f *faultTable) set(transport, call, fault, text string) {
	f.Lock()
	defer f.Unlock()
	f.cells[transport+call+fault] = text
}

func (f *faultTable) String() string {
	f.Lock()
	defer f.Unlock()
	var b strings.Builder
	for _, transport := range []string{"shm", "tcp"} {
		fmt.Fprintf(&b, "\n%-18s", transport)
		for _, fault := range faults {
			fmt.Fprintf(&b, "%26s", fault)
		}
		for _, call := range faultyCalls {
			fmt.Fprintf(&b, "\n%-18s", call)
			for _, fault := range faults {
				fmt.Fprintf(&b, "%26s", f.cells[transport+call+fault])
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

// TestFaults has one of four processes end, stand still, come late, call something else or leave out a call, in each
// collective and message. Every survivor's call fails when the timeout has passed or before, names that rank, and leaves a dump. A
// trace of the dumps names that rank too, and no other, before the rank has left a dump and after. Without -pg.faults it
// runs a sample.
func TestFaults(t *testing.T) {
	t.Parallel()
	table := &faultTable{cells: map[string]string{}}
	t.Cleanup(func() {
		if *everyFault {
			t.Logf("longest time until a survivor's error, where the timeout is %v; first finding of a trace without the rank's dump"+
				" and, if it is another, with it\n%s", faultLimit, table)
		}
	})
	program := builtCommand(t)
	for i, call := range faultyCalls {
		for j, fault := range faults {
			for k, transport := range []string{"shm", "tcp"} {
				if call == "recv from any" && fault == "skips one" {
					table.set(transport, call, fault, "no fault")
					continue // another message does as well
				}
				if !*everyFault && (i+5*j+7*k)%13 != 3 {
					continue
				}
				t.Run(fmt.Sprintf("coll=%s/fault=%s/transport=%s", call, fault, transport), func(t *testing.T) {
					t.Parallel()
					needs(t, transport)
					table.set(transport, call, fault, "FAILED")
					longest, traces := suffer(t, program, transport, call, fault)
					table.set(transport, call, fault, fmt.Sprint(longest.Round(time.Millisecond), " ", traces))
				})
			}
		}
	}
}

// builtCommand builds the command and returns its path.
func builtCommand(t *testing.T) string {
	program := filepath.Join(t.TempDir(), "colligo")
	build := exec.Command("go", "build", "-o", program, "github.com/colligo-go/colligo/cmd/colligo")
	build.Env = append(cleanEnvironment(), "CGO_ENABLED=0", "GOFLAGS=")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return program
}

// suffer runs one cell and returns how long the last survivor took to know, and what traces find.
func suffer(t *testing.T, program, transport, call, fault string) (longest time.Duration, traces string) {
	victim, dumps := 2, t.TempDir()
	if call == "recv from any" {
		victim = 0 // the others do without any other
	}
	limit := faultLimit
	differs := (fault == "calls another" || fault == "skips one") && !strings.Contains(call, "recv")
	if differs {
		limit = patience
	}
	job := newJob(t)
	o := order{Config: config{Transport: transport, Timeout: limit, Size: 4, Init: "tcp://" + freeport.Address(t, "127.0.0.1")}}
	for o.Config.Rank = range 4 {
		o.Role, o.Arg = "faulty", call+"/"+fault+"/"
		if o.Config.Rank == victim {
			o.Arg += "victim"
		}
		job.start(o, "COLLIGO_DUMP_ON_TIMEOUT=1", "COLLIGO_FR_DUMP_TEMP_FILE="+dumps+"/trace_")
	}
	job.all("init")
	job.all("ready")
	at, open := strike(t, job.procs[victim], fault), 0
	for rank, p := range job.procs {
		if rank == victim {
			continue
		}
		r := p.next("done")
		took := r.When.Sub(at)
		t.Logf("rank %d after %v: %s", rank, took.Round(time.Millisecond), r.Err)
		longest = max(longest, took)
		require.Less(t, took, limit+lateness())
		if differs {
			require.Less(t, took, soon(), "it takes some 40 ms; a message that has not come may come until its limit")
		}
		if fault == "stopped" {
			require.Contains(t, silent(t, r.Err), victim, "beside it a rank that is held up when it is asked")
		} else {
			require.Contains(t, r.Err, fmt.Sprintf("rank %d", victim))
		}
		p.ends()
		d, err := flight.ReadFile(flight.Path(dumps+"/trace_", rank))
		require.NoError(t, err)
		open += len(slices.DeleteFunc(d.Entries, func(e flight.Entry) bool { return e.State == flight.Completed }))
	}
	if fault != "killed" { // known, it may be, before the next call is recorded
		require.NotZero(t, open, "in all dumps everything is complete")
	}
	traces = traced(t, program, dumps, victim)
	goOn(t, job.procs[victim], fault)
	if again := traced(t, program, dumps, victim); again != traces {
		traces += ", " + again
	}
	job.tidy()
	return longest, traces
}

// traced has the command and what is below it name the victim by the dumps that there are. It returns the kind of the first
// finding.
func traced(t *testing.T, program, dir string, victim int) string {
	files, err := flight.Files(dir, "trace_")
	require.NoError(t, err)
	dumps := map[int]*flight.Dump{}
	for rank, path := range files {
		dumps[rank], err = flight.ReadFile(path)
		require.NoError(t, err)
	}
	r := trace.Analyze(dumps)
	t.Logf("dumps of ranks %v: %s", r.Ranks, r)
	require.False(t, r.OK())
	require.Equal(t, []int{victim}, r.Findings[0].Ranks)
	require.Contains(t, r.Verdict(), fmt.Sprintf("rank %d", victim))

	out, err := exec.Command(program, "trace", "-prefix", "trace_", dir).Output()
	var code *exec.ExitError
	require.ErrorAs(t, err, &code)
	require.Equal(t, 1, code.ExitCode(), "%s", code.Stderr)
	verdict, _, _ := strings.Cut(string(out), "\n")
	require.Contains(t, verdict, fmt.Sprintf("rank %d", victim))
	return r.Findings[0].Kind.String()
}

// strike lets the fault happen and returns when it did.
func strike(t *testing.T, p *rankProcess, fault string) time.Time {
	switch fault {
	case "killed":
		time.Sleep(20 * time.Millisecond)
		defer p.cmd.Process.Kill()
		return time.Now()
	case "stopped":
		time.Sleep(20 * time.Millisecond)
		require.NoError(t, p.cmd.Process.Signal(syscall.SIGSTOP))
		return time.Now()
	}
	return p.next("fault").When
}

// goOn lets the rank at fault go on, whose call fails too.
func goOn(t *testing.T, p *rankProcess, fault string) {
	switch fault {
	case "killed":
		return
	case "stopped":
		require.NoError(t, p.cmd.Process.Signal(syscall.SIGCONT))
	case "delayed":
		p.say("go on")
	}
	require.NotEmpty(t, p.next("done").Err)
	p.ends()
}
