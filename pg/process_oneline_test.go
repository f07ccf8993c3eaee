package pg_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/internal/freeport"
	"github.com/colligo-go/colligo/pg/flight"
	"github.com/colligo-go/colligo/pg/trace"
)

// TestOneLineEach kills one process of five. Each of the others logs one line, which names the operation once and the dump's
// file. The report on the dumps begins with the death.
func TestOneLineEach(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"shm", "tcp"} {
		t.Run("transport="+transport, func(t *testing.T) {
			t.Parallel()
			needs(t, transport)
			dir, job := t.TempDir(), newJob(t)
			o := order{Role: "loop", Arg: "all_reduce", Config: config{Init: "tcp://" + freeport.Address(t, "127.0.0.1"), Size: 5,
				Transport: transport, Timeout: patience}}
			for o.Config.Rank = range 5 {
				job.start(o, "COLLIGO_DUMP_ON_TIMEOUT=1", "COLLIGO_FR_DUMP_TEMP_FILE="+dir+"/rank_")
			}
			job.all("init")
			job.all("ready")
			time.Sleep(30 * time.Millisecond)
			const victim = 2
			require.NoError(t, job.procs[victim].cmd.Process.Kill())
			dumps := map[int]*flight.Dump{}
			for rank, p := range job.procs {
				if rank == victim {
					continue
				}
				r := p.next("done")
				namedOnce(t, r.Err)
				require.NotContains(t, r.Err, "rank 2: rank 2")
				p.ends()
				lines := slices.DeleteFunc(p.logged("level="), func(line string) bool { // as on a busy machine
					return strings.Contains(line, `msg="an operation waits"`) || strings.Contains(line, `msg="waits for `)
				})
				require.Len(t, lines, 1, p.log.String())
				path := flight.Path(dir+"/rank_", rank)
				require.Regexp(t, `level=WARN msg="group failed" group=0 rank=\d seq=\d+ error=".*" dump="?`+path+`"?\n`, lines[0])
				namedOnce(t, lines[0])
				var err error
				dumps[rank], err = flight.ReadFile(path)
				require.NoError(t, err)
			}
			says := trace.Analyze(dumps).Verdict()
			require.Regexp(t, `^rank 2 died at \d\d:\d\d:\d\d\.\d{3} UTC: all_reduce #\d+ .* of group 0 \(default_pg\): rank 2 left no dump; ranks? .* had waited \S+$`, says)
		})
	}
}

// namedOnce demands that a text names an operation, and none twice. It names two where this rank was in another one than the rank that
// has reported the failure.
func namedOnce(t *testing.T, text string) {
	t.Helper()
	all := regexp.MustCompile(`all_reduce #\d+`).FindAllString(text, -1)
	require.NotEmpty(t, all, text)
	slices.Sort(all)
	require.Len(t, slices.Compact(slices.Clone(all)), len(all), text)
}
