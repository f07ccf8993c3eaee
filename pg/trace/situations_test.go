package trace

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/pg/flight"
)

var rewrite = flag.Bool("rewrite", false, "write the results of the situations instead of comparing them")

// TestSituations plays each file of testdata/situations: what ranks did, and under "--" the report.
//
//	group NAME DESC RANKS              a group, of the ranks "0-3" or "0,2"
//	RANKS OP [TYPE SIZES] [WORDS]      what ranks call in the last group; OP "send 0->1" takes ranks of the group
//	dump RANKS                         ranks that leave a dump, else all do
//	version V RANKS, lost N RANKS      the version of dumps; ranks that forget their first N operations
//	active RANKS                       ranks whose dumps leave out what is completed
//	failed RANKS BLAME TEXT            ranks say that the last group has failed, because of the ranks BLAME or "-"
//	dated RANKS                        dumps that tell when they were taken, and groups failed: now
//
// WORDS are: waits (started), scheduled, gives-up (started and retired), same (number as the call before), in=SIZES and
// out=SIZES (several with ";"), tag=N, and at=FILE:LINE. With a duration there are late (called later), ends (after the call), took
// and ahead (the clock). Time goes on by a millisecond with each line, and with "pause DURATION".
func TestSituations(t *testing.T) {
	files, err := filepath.Glob("testdata/situations/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			script, want, _ := strings.Cut(strings.ReplaceAll(string(text), "\r\n", "\n"), "--\n")
			got := Analyze(play(t, script)).String()
			if *rewrite {
				require.NoError(t, os.WriteFile(file, []byte(script+"--\n"+got), 0o644))
				return
			}
			require.Equal(t, want, got)
		})
	}
}

// TestTorch reads dumps of PyTorch's, by NCCL and by Gloo.
func TestTorch(t *testing.T) {
	for name, want := range map[string]string{
		"torch-2.11/well": "all well: 2 ranks, 2 groups: 15 collectives and 1 message agree\n",
		"torch-2.11/skip": "all_reduce #15 (float32 [6]) of group 0 (default_pg): rank 1 has not entered; rank 0 waits\n" +
			"       rank 0 called it at job.py:43 (main)\n" +
			"       rank 1 is done with its last, recv 1<-0 (uint8 [100]) of group 1, called at job.py:40 (main)\n",
		"torch-2.14-gloo/well": "all well: 2 ranks, 1 group: 15 collectives and 0 messages agree\n",
		"torch-2.14-gloo/skip": "all_reduce #15 (float32 [6]) of group 0 (default_pg): rank 1 has not entered; rank 0 waits\n" +
			"       rank 0 called it at job.py:47 (main)\n" +
			"       rank 1 is done with its last, barrier #14 of group 0 (default_pg), called at job.py:27 (calls)\n",
	} {
		require.Equal(t, want, Analyze(torchDumps(t, name)).String()[:len(want)])
	}
}

// torchDumps reads what two ranks of PyTorch's have left.
func torchDumps(t *testing.T, name string) map[int]*flight.Dump {
	dumps := map[int]*flight.Dump{}
	for rank := range 2 {
		d, err := flight.ReadFile(flight.Path("../flight/testdata/"+name+"_rank_", rank))
		require.NoError(t, err)
		dumps[rank] = d
	}
	return dumps
}

// TestOneLine has names in dumps that would begin lines of their own, or change a terminal's title.
func TestOneLine(t *testing.T) {
	dumps := play(t, "group 0 default_pg 0-1\n0-1 all_reduce Float [8]\n0 all_reduce Float [8] waits at=a.py:3\n")
	const evil = "x\nall well\x1b]0;title\x07"
	for _, d := range dumps {
		g := d.Groups["0"]
		g.Desc = evil
		d.Groups["0"], d.Version = g, "2.10"+evil
		for i := range d.Entries {
			e := &d.Entries[i]
			e.Desc, e.Name, e.InTypes[0] = evil, "nccl:"+evil, evil
			e.Frames = []flight.Frame{{Name: evil, File: evil, Line: 1}}
		}
	}
	dumps[1].Version = "2.9"
	r := Analyze(dumps)
	lines := 1 + len(r.Groups) + len(r.Notes)
	for _, f := range r.Findings {
		lines += len(f.lines())
	}
	require.Equal(t, lines, strings.Count(r.String(), "\n")+1, r.String())
	require.NotContains(t, r.String(), "\x1b")
	require.NotContains(t, r.Verdict(), "\n")
}

// TestGroupLost has ranks whose rings have lost all that they did in a group. They are not blamed for the operation in which
// another rank waits, for their status tells that they have come to it.
func TestGroupLost(t *testing.T) {
	dumps := play(t, "group 0 default_pg 0-2\n0-1 broadcast Float [8]\n2 broadcast Float [8] waits\ngroup 1 two 0-1\n"+
		strings.Repeat("0-1 all_reduce Float [8]\n", 3)+"lost 1 0-1\n")
	for _, rank := range []int{0, 1} {
		for i := range dumps[rank].Entries {
			dumps[rank].Entries[i].PG = 1
		}
		dumps[rank].Status = map[string]flight.Status{"0": {LastEnqueued: 1, LastStarted: 1, LastCompleted: 1}, "1": {LastEnqueued: 3, LastStarted: 3, LastCompleted: 3}}
	}
	require.Equal(t, "broadcast #1 (float32 [8]) of group 0 (default_pg): all ranks have entered, none has come out; rank 2 waits", Analyze(dumps).Verdict())
	dumps[1].Status["0"] = flight.Status{LastEnqueued: -1, LastStarted: -1, LastCompleted: -1}
	require.Equal(t, "broadcast #1 (float32 [8]) of group 0 (default_pg): rank 1 has not entered; rank 2 waits", Analyze(dumps).Verdict())
}

// TestGlooGaveUp has Gloo's last operation over on the one rank that called it: with an error then.
func TestGlooGaveUp(t *testing.T) {
	dumps := torchDumps(t, "torch-2.14-gloo/skip")
	last := &dumps[0].Entries[14]
	last.Retired = true
	require.Contains(t, Analyze(dumps).String(), "rank 1 has not entered; rank 0 gave up, with a limit of 30m0s\n")
	require.Equal(t, flight.Scheduled, dumps[0].Entries[0].State, "the dumps stay as they are")
	dumps[0].Entries = dumps[0].Entries[:14]
	require.Contains(t, Analyze(dumps).String(), "all well: 2 ranks, 1 group: 14 collectives")
	dumps[1].Entries = nil
	require.Contains(t, Analyze(dumps).String(), "all well", "nothing is known of what a rank without entries has called")
}

// stage is what the lines of a script build up.
type stage struct {
	dumps map[int]*flight.Dump
	group string
	seqs  map[string]uint64 // by rank and group
	now   int64
}

func play(t testing.TB, script string) map[int]*flight.Dump {
	s := &stage{dumps: map[int]*flight.Dump{}, seqs: map[string]uint64{}, now: 1_700_000_000_000_000_000}
	for line := range strings.Lines(script) {
		if f := strings.Fields(line); len(f) > 0 && !strings.HasPrefix(f[0], "#") {
			s.line(t, f)
		}
	}
	return s.dumps
}

func (s *stage) line(t testing.TB, f []string) {
	s.now += 1_000_000
	switch f[0] {
	case "group":
		s.group = f[1]
		for _, r := range ranksOf(t, f[3]) {
			if s.dumps[r] == nil {
				s.dumps[r] = &flight.Dump{Version: "2.10", Groups: map[string]flight.Group{}, Entries: []flight.Entry{}}
			}
			s.dumps[r].Groups[f[1]] = flight.Group{Name: f[1], Desc: f[2], Ranks: ranksOf(t, f[3])}
		}
	case "dump":
		for rank := range s.dumps {
			if !slices.Contains(ranksOf(t, f[1]), rank) {
				delete(s.dumps, rank)
			}
		}
	case "active":
		for _, r := range ranksOf(t, f[1]) {
			d := s.dumps[r]
			d.Status = map[string]flight.Status{"0": {LastEnqueued: int64(s.seqs[fmt.Sprint(r, s.group)])}}
			d.Entries = slices.DeleteFunc(d.Entries, func(e flight.Entry) bool { return e.State == flight.Completed })
		}
	case "failed":
		for _, r := range ranksOf(t, f[1]) {
			failure := flight.Failure{Text: strings.Join(f[3:], " "), Ranks: []int{}}
			if f[2] != "-" {
				failure.Ranks = ranksOf(t, f[2])
			}
			s.dumps[r].Failures = map[string]flight.Failure{s.group: failure}
		}
	case "dated":
		for _, r := range ranksOf(t, f[1]) {
			s.dumps[r].Taken = s.now
			for name, failure := range s.dumps[r].Failures {
				failure.Time = s.now
				s.dumps[r].Failures[name] = failure
			}
		}
	case "pause":
		d, err := time.ParseDuration(f[1])
		require.NoError(t, err)
		s.now += int64(d)
	case "version":
		for _, r := range ranksOf(t, f[2]) {
			s.dumps[r].Version = f[1]
		}
	case "lost":
		n, err := strconv.Atoi(f[1])
		require.NoError(t, err)
		for _, r := range ranksOf(t, f[2]) {
			s.dumps[r].Entries = s.dumps[r].Entries[n:]
		}
	default:
		for _, r := range ranksOf(t, f[0]) {
			s.call(t, r, f[1:])
		}
	}
}

func (s *stage) call(t testing.TB, rank int, f []string) {
	d := s.dumps[rank]
	e := flight.Entry{ID: int64(len(d.Entries)), Group: s.group, Desc: d.Groups[s.group].Desc, Name: "nccl:" + f[0], State: flight.Completed,
		Created: s.now, DiscoveredStarted: s.now + 1000, DiscoveredCompleted: s.now + 500_000, Duration: -1, Timeout: 30 * time.Second, Retired: true}
	key := fmt.Sprint(rank, s.group)
	f = f[1:]
	if e.P2P = e.Name == "nccl:send" || e.Name == "nccl:recv"; e.P2P {
		e.Name, f = e.Name+" "+f[0], f[1:]
	} else {
		s.seqs[key]++
	}
	e.Seq = s.seqs[key]
	if len(f) >= 2 && f[1][0] == '[' {
		e.InTypes, e.OutTypes = []string{f[0]}, []string{f[0]}
		e.InSizes, e.OutSizes = sizesOf(t, f[1]), sizesOf(t, f[1])
		f = f[2:]
	}
	for _, word := range f {
		s.word(t, &e, word, key)
	}
	d.Entries = append(d.Entries, e)
}

func (s *stage) word(t testing.TB, e *flight.Entry, word, key string) {
	name, value, _ := strings.Cut(word, "=")
	switch name {
	case "waits", "gives-up":
		e.State, e.DiscoveredCompleted, e.Retired = flight.Started, 0, name == "gives-up"
	case "scheduled":
		e.State, e.DiscoveredStarted, e.DiscoveredCompleted, e.Retired = flight.Scheduled, 0, 0, false
	case "tag":
		n, err := strconv.ParseInt(value, 10, 32)
		require.NoError(t, err)
		e.Tag, e.Tagged = int32(n), true
	case "in":
		e.InSizes = sizesOf(t, value)
	case "out":
		e.OutSizes = sizesOf(t, value)
	case "late", "took", "ahead", "ends":
		d, err := time.ParseDuration(value)
		require.NoError(t, err)
		switch name {
		case "late":
			e.Created, e.DiscoveredStarted = e.Created+int64(d), e.DiscoveredStarted+int64(d)
		case "took":
			e.Duration = d
		case "ends":
			e.DiscoveredCompleted = e.Created + int64(d)
		case "ahead":
			e.Created, e.DiscoveredStarted, e.DiscoveredCompleted = e.Created+int64(d), e.DiscoveredStarted+int64(d), e.DiscoveredCompleted+int64(d)
		}
	case "at":
		file, line, _ := strings.Cut(value, ":")
		n, err := strconv.Atoi(line)
		require.NoError(t, err)
		e.Frames = []flight.Frame{{Name: "github.com/colligo-go/colligo/pg.(*Group).run", File: "/m/pg/group.go", Line: 1}, {Name: "main.train", File: "/src/" + file, Line: n}}
	case "same":
		s.seqs[key]--
		e.Seq = s.seqs[key]
	default:
		t.Fatalf("word %q", word)
	}
}

// ranksOf reads "0-3,7".
func ranksOf(t testing.TB, s string) []int {
	var all []int
	for part := range strings.SplitSeq(s, ",") {
		from, to, ok := strings.Cut(part, "-")
		if !ok {
			to = from
		}
		a, err := strconv.Atoi(from)
		require.NoError(t, err)
		b, err := strconv.Atoi(to)
		require.NoError(t, err)
		for ; a <= b; a++ {
			all = append(all, a)
		}
	}
	return all
}

// sizesOf reads "[2,3];[4]".
func sizesOf(t testing.TB, s string) [][]int64 {
	all := [][]int64{}
	for part := range strings.SplitSeq(s, ";") {
		sizes := []int64{}
		for n := range strings.SplitSeq(strings.Trim(part, "[]"), ",") {
			if n == "" {
				continue
			}
			i, err := strconv.ParseInt(n, 10, 64)
			require.NoError(t, err)
			sizes = append(sizes, i)
		}
		if part != "" {
			all = append(all, sizes)
		}
	}
	return all
}
