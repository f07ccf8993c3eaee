package pg_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/pg"
)

// starved is for how long ranks may be held up that have half a second to answer where they are.
const starved = 200 * time.Millisecond

// TestStop stops a process without ending it. The others' calls time out and say which rank does not answer, and so does the
// stopped one's call when it goes on. They know when the timeout has passed.
func TestStop(t *testing.T) {
	t.Parallel()
	const timeout = 6 * time.Second
	for _, c := range []struct {
		transport, name string
		victim          int
	}{{"shm", "1 MiB all_reduce", 2}, {"shm", "send and recv", 2}, {"tcp", "1 MiB all_reduce", 0}, {"tcp", "barrier", 2}} {
		t.Run(fmt.Sprintf("coll=%s/transport=%s/victim=%d", c.name, c.transport, c.victim), func(t *testing.T) {
			t.Parallel()
			job := launch(t, 4, order{Role: "loop with a clock", Arg: c.name, Config: config{Transport: c.transport, Timeout: timeout}}, nil)
			job.all("init")
			job.all("ready")
			stopped := job.procs[c.victim]
			at := time.Now()
			asking := at.Add(timeout / 2) // not before, a rank asks the others where they are
			require.NoError(t, stopped.cmd.Process.Signal(syscall.SIGSTOP))
			done, held := map[int]report{}, time.Duration(0)
			for rank, p := range job.procs {
				if rank != c.victim {
					held = max(held, delayed(t, p.next("delays").Text, asking))
					done[rank] = p.next("done")
				}
			}
			for rank, r := range done {
				t.Logf("rank %d after %v, one was held up for %v: %s", rank, r.When.Sub(at).Round(time.Millisecond), held, r.Err)
				require.Contains(t, r.Is, "timeout", r.Err)
				require.Less(t, r.When.Sub(at), timeout+margin)
				require.Contains(t, silent(t, r.Err), c.victim)
				if held < starved { // else one may not have come to answer
					require.Len(t, silent(t, r.Err), 1)
					require.Less(t, r.When.Sub(at), timeout+beyond)
				}
				job.procs[rank].ends()
			}
			require.NoError(t, stopped.cmd.Process.Signal(syscall.SIGCONT))
			stopped.next("delays")
			r := stopped.next("done")
			t.Logf("rank %d, stopped: %s", c.victim, r.Err)
			require.NotEmpty(t, r.Err)
			stopped.ends()
			job.tidy()
		})
	}
}

// silent lists the ranks of which an error says that they do not answer.
func silent(t *testing.T, text string) []int {
	t.Helper()
	found := regexp.MustCompile(`ranks? ([0-9, -]+) do(?:es)? not answer`).FindStringSubmatch(text)
	require.NotNil(t, found, text)
	var ranks []int
	for part := range strings.SplitSeq(found[1], ", ") {
		first, last, several := strings.Cut(part, "-")
		if !several {
			last = first
		}
		from, err1 := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		require.NoError(t, errors.Join(err1, err2), text)
		for ; from <= to; from++ {
			ranks = append(ranks, from)
		}
	}
	return ranks
}

func init() { roles["loop with a clock"] = loopWithClock }

// loopWithClock runs loop, and tells before its report how late the process was woken meanwhile.
func loopWithClock(p *process, g *pg.Group, name string) error {
	return clocked(p, func() error { return loop(p, g, name) })
}

// clocked runs f and measures how much later than asked for the process was woken. It tells pairs of nanoseconds since 1970 and nanoseconds
// late.
func clocked(p *process, f func() error) error {
	const nap, usual = 10 * time.Millisecond, 2 * time.Millisecond
	stop, delays := make(chan struct{}), make(chan [][2]int64)
	go func() {
		var all [][2]int64
		for {
			before := time.Now()
			select {
			case <-stop:
				delays <- all
				return
			case <-time.After(nap):
			}
			if late := time.Since(before) - nap; late > usual {
				all = append(all, [2]int64{time.Now().UnixNano(), int64(late)})
			}
		}
	}()
	failed := f()
	close(stop)
	text, err := json.Marshal(<-delays)
	if err == nil {
		err = p.tell("delays", string(text), nil)
	}
	if err != nil {
		return err
	}
	return failed
}

// delayed is for how long a process was held up after a time.
func delayed(t *testing.T, text string, after time.Time) time.Duration {
	var all [][2]int64
	require.NoError(t, json.Unmarshal([]byte(text), &all))
	held := time.Duration(0)
	for _, d := range all {
		if d[0] > after.UnixNano() {
			held += time.Duration(d[1])
		}
	}
	return held.Round(time.Millisecond)
}
