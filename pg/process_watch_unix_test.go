//go:build unix

package pg_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/internal/freeport"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/flight"
)

// watchJob starts two processes with variables set.
func watchJob(t *testing.T, o order, env ...string) *job {
	t.Helper()
	job := newJob(t)
	o.Config.Init, o.Config.Size = "tcp://"+freeport.Address(t, "127.0.0.1"), 2
	for o.Config.Rank = range 2 {
		job.start(o, env...)
	}
	return job
}

// TestTearDownProcess has a watchdog end its process, in the modes that do and as the variables say. One rank waits for an
// operation that the other never enters; nobody asks its work.
func TestTearDownProcess(t *testing.T) {
	t.Parallel()
	for variable, ends := range map[string]bool{"COLLIGO_ASYNC_ERROR_HANDLING=1": true, "COLLIGO_ASYNC_ERROR_HANDLING=3": true,
		"COLLIGO_ASYNC_ERROR_HANDLING=2": false, "TORCH_NCCL_ASYNC_ERROR_HANDLING=1": false} {
		t.Run(variable, func(t *testing.T) {
			t.Parallel()
			dumps := t.TempDir()
			job := watchJob(t, order{Role: "forgotten", Config: config{Timeout: time.Second}}, variable,
				"COLLIGO_DUMP_ON_TIMEOUT=1", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE="+dumps+"/nccl_trace_rank_")
			job.all("init")
			for rank, p := range job.procs {
				if rank == 0 {
					p.logs("group failed", "rank 1 ", "after 1s; rank 0 waits")
				}
				if ends {
					var code *exec.ExitError
					require.ErrorAs(t, p.ended(), &code, p.name)
					require.Equal(t, pg.ExitCode, code.ExitCode())
					p.logs("level=ERROR", "ending the process because a group failed", "code=76")
				} else {
					p.say("close")
					require.Regexp(t, "rank 1 (has not entered|does not answer) after 1s", p.next("done").Err) // the latter if it is held up when asked
					p.ends()
				}
				_, err := flight.ReadFile(flight.Path(dumps+"/nccl_trace_rank_", rank))
				require.NoError(t, err)
			}
		})
	}
}

func init() { roles["forgotten"] = forgotten }

// forgotten starts an operation on rank 0 only and does not look at it until told.
func forgotten(p *process, g *pg.Group, _ string) error {
	if g.Rank() == 0 {
		g.AllReduceAsync(context.Background(), colligo.Of(make([]float32, 8)), colligo.Sum)
	} else {
		for g.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		g.Barrier(context.Background())
	}
	if _, err := p.hear(); err != nil {
		return err
	}
	return g.Err()
}

// ended waits for the process and returns how it ended.
func (p *rankProcess) ended() error {
	p.t.Helper()
	select {
	case err := <-p.exit:
		return err
	case <-time.After(patience):
		require.FailNow(p.t, "no end", "%s still runs", p.name)
	}
	panic("unreachable")
}

// TestAskForDump asks processes at work for dumps, by a pipe and by a signal. They go on working.
func TestAskForDump(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	job := watchJob(t, order{Role: "working", Config: config{DumpSignal: int(syscall.SIGUSR2)}}, "COLLIGO_FR_DUMP_TEMP_FILE="+dir+"/trace_",
		"COLLIGO_DEBUG_INFO_PIPE_FILE="+dir+"/ask_", "COLLIGO_COORD_CHECK_MILSEC=20")
	job.all("init")
	job.all("ready")
	written := func(rank int) {
		t.Helper()
		path := flight.Path(dir+"/trace_", rank)
		require.Eventually(t, func() bool { d, err := flight.ReadFile(path); return err == nil && len(d.Entries) > 0 }, patience, 5*time.Millisecond)
		require.NoError(t, os.Remove(path))
	}
	for rank, p := range job.procs {
		pipe := fmt.Sprintf("%s/ask_%d.pipe", dir, rank)
		f, err := os.OpenFile(pipe, os.O_WRONLY, 0)
		require.NoError(t, err)
		_, err = f.WriteString("1")
		require.NoError(t, errors.Join(err, f.Close()))
		written(rank)
		p.logs("wrote what was recorded", "asked through "+pipe)
		require.NoError(t, p.cmd.Process.Signal(syscall.SIGUSR2))
		written(rank)
	}
	for _, p := range job.procs {
		p.say("enough")
	}
	for _, p := range job.procs {
		require.Empty(t, p.next("done").Err)
		p.ends()
	}
	left, err := filepath.Glob(dir + "/*.pipe")
	require.NoError(t, err)
	require.Empty(t, left)
}

func init() { roles["working"] = working }

// working repeats collectives until every rank was told that it is enough.
func working(p *process, g *pg.Group, _ string) error {
	ctx, heard := context.Background(), make(chan error, 1)
	go func() { _, err := p.hear(); heard <- err }()
	more := []int32{1}
	for i := 0; more[0] > 0; i++ {
		if i == 1 {
			if err := p.tell("ready", "", nil); err != nil {
				return err
			}
		}
		more[0] = 1
		select {
		case err := <-heard:
			if err != nil {
				return err
			}
			heard = nil
			more[0] = 0
		default:
			if heard == nil {
				more[0] = 0
			}
		}
		if err := g.AllReduce(ctx, colligo.Of(more), colligo.Sum); err != nil {
			return err
		}
	}
	return nil
}

// TestBadVariable makes Init fail and name variable and value.
func TestBadVariable(t *testing.T) {
	t.Parallel()
	job := newJob(t)
	p := job.start(order{Config: config{Size: 1, Init: "tcp://127.0.0.1:0"}}, "TORCH_NCCL_BLOCKING_WAIT=perhaps")
	require.Equal(t, `pg: environment variable TORCH_NCCL_BLOCKING_WAIT is "perhaps": want y, yes, 1, t or true, or n, no, 0, f or false`, p.refused())
}

// TestDumpsByDefault writes dumps to the user's cache folder where nothing else is said.
func TestDumpsByDefault(t *testing.T) {
	t.Parallel()
	home, cache := t.TempDir(), t.TempDir()
	for variable, want := range map[string]string{"XDG_CACHE_HOME=" + cache: cache, "XDG_CACHE_HOME=": home + "/.cache"} {
		job := watchJob(t, order{Role: "fails"}, "HOME="+home, variable, "COLLIGO_DUMP_ON_TIMEOUT=")
		job.all("init")
		job.procs[0].say("fail") // now that the other has formed its group too
		for rank, p := range job.procs {
			require.Contains(t, p.next("done").Err, "no reason")
			p.ends()
			_, err := flight.ReadFile(fmt.Sprintf("%s/colligo/trace_rank_%d", want, rank))
			require.NoError(t, err)
		}
	}
}

func init() {
	roles["fails"] = func(p *process, g *pg.Group, _ string) error {
		if g.Rank() == 0 {
			if _, err := p.hear(); err != nil {
				return err
			}
			pg.FailForTest(g, errors.New("no reason"))
		}
		err := g.Barrier(context.Background())
		if err == nil || !strings.Contains(err.Error(), "no reason") {
			return fmt.Errorf("the barrier ended with %w", err)
		}
		return err
	}
}
