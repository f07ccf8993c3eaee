package trace

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/pg/flight"
)

// pageData is what the page's program reads.
type pageData struct {
	Start string
	Lanes []struct {
		Rank  int
		Group string
		Rows  int
		Bars  [][5]float64
		About []string
		Bad   []int
		Open  []int
		Slots [][6]any
	}
	Names  []string
	Breaks [][4]float64
}

// scene is a rank that is missing, a message, and calls that overlap.
const scene = `
group 0 default_pg 0-1
0-1 all_reduce Float [8] took=400us
0-1 broadcast Float [8] late=200us
0 send 0->1 Float [3] at=stage.go:5
1 recv 1<-0 Float [3]
0 all_reduce Float [16] waits at=train.go:12
0 all_reduce_barrier Float [1] scheduled
`

func TestRows(t *testing.T) {
	l := lane{bars: []bar{{from: 5, to: 9}, {from: 0, to: 3}, {from: 1, to: 6}, {from: 3, to: 4}, {from: 6, to: 6}}}
	l.arrange()
	var got []string
	for _, b := range l.bars {
		got = append(got, fmt.Sprintf("%d-%d in %d", b.from, b.to, b.row))
	}
	require.Equal(t, []string{"0-3 in 0", "1-6 in 1", "3-4 in 0", "5-9 in 0", "6-6 in 1"}, got)
	require.Equal(t, 2, l.rows)
}

func TestTimeline(t *testing.T) {
	dumps := play(t, scene)
	var b bytes.Buffer
	require.NoError(t, WriteTimeline(&b, dumps, Analyze(dumps)))
	var lines []string
	var trace struct {
		Events []event `json:"traceEvents"`
		Other  map[string]string
	}
	require.NoError(t, json.Unmarshal(b.Bytes(), &trace))
	for _, e := range trace.Events {
		line := fmt.Sprintf("%s %d/%d %s", e.Phase, e.Rank, e.Thread, e.Name)
		switch {
		case e.Phase == "M":
			for _, value := range e.Args {
				line += fmt.Sprint(" ", value)
			}
		default:
			line += fmt.Sprintf(" %v+%v %v %v waited %v at %v", e.Time, *e.Duration, e.Args["state"], e.Color, e.Args["waited_us"], e.Args["called at"])
		}
		lines = append(lines, line)
	}
	require.Equal(t, []string{
		"M 0/0 process_name rank 0", "M 0/0 process_sort_index 0", "M 0/0 thread_name group 0 (default_pg)", "M 0/1 thread_name group 0 (default_pg)",
		"X 0/0 all_reduce #1 0+500 completed  waited 1 at <nil>", "X 0/0 broadcast #2 1200+300 completed  waited 1 at <nil>",
		"X 0/0 send 0->1 2000+500 completed  waited 1 at stage.go:5 (main.train)",
		"X 0/0 all_reduce #3 4000+3e+07 started terrible waited 1 at train.go:12 (main.train)",
		"X 0/1 all_reduce_barrier #4 5000+2.9999e+07 scheduled terrible waited <nil> at <nil>",
		"M 1/0 process_name rank 1", "M 1/0 process_sort_index 1", "M 1/2 thread_name group 0 (default_pg)",
		"X 1/2 all_reduce #1 0+500 completed  waited 1 at <nil>", "X 1/2 broadcast #2 1200+300 completed  waited 1 at <nil>",
		"X 1/2 recv 1<-0 3000+500 completed  waited 1 at <nil>",
		"X 1/2 all_reduce #3: not entered 4000+3e+07 absent terrible waited <nil> at <nil>",
	}, lines)
}

// TestClocks: a rank whose clock is an hour ahead is drawn beside the others.
func TestClocks(t *testing.T) {
	dumps := play(t, "group 0 default_pg 0-1\n0 all_reduce Float [8]\n1 all_reduce Float [8] ahead=1h\n0 all_reduce Float [8]\n1 all_reduce Float [8] ahead=1h\n")
	p := draw(dumps, Analyze(dumps))
	require.Equal(t, int64(0), p.lanes[0].bars[0].from)
	require.Equal(t, int64(0), p.lanes[1].bars[0].from, "1 ms later, which is what the clock is corrected by too much")
	require.Less(t, p.lanes[1].bars[1].to, int64(time.Second))
}

// big is a dump of many operations.
func big(ranks, each int) map[int]*flight.Dump {
	dumps := map[int]*flight.Dump{}
	members := make([]int, ranks)
	for rank := range ranks {
		members[rank] = rank
		d := &flight.Dump{Version: "2.10", Groups: map[string]flight.Group{"0": {Name: "0", Desc: "default_pg", Ranks: members}}}
		for i := range each {
			at := 1_700_000_000_000_000_000 + int64(i)*1_000_000
			d.Entries = append(d.Entries, flight.Entry{ID: int64(i), Group: "0", Desc: "default_pg", Seq: uint64(i + 1), OpID: uint64(i + 1), Name: "nccl:all_reduce",
				InSizes: [][]int64{{1024}}, OutSizes: [][]int64{{1024}}, InTypes: []string{"Float"}, OutTypes: []string{"Float"}, State: flight.Completed,
				Created: at, DiscoveredStarted: at + 10_000, DiscoveredCompleted: at + 900_000, Duration: -1, Retired: true})
		}
		dumps[rank] = d
	}
	return dumps
}

func TestPage(t *testing.T) {
	dumps := play(t, scene)
	for _, d := range dumps { // nothing of a dump may become part of the page's code
		d.Groups["0"] = flight.Group{Name: "0", Desc: "</script><b>{{js}}", Ranks: []int{0, 1}}
		for i := range d.Entries {
			d.Entries[i].Desc = "</script><b>{{js}}"
		}
	}
	r := Analyze(dumps)
	var b bytes.Buffer
	require.NoError(t, WriteHTML(&b, dumps, r))
	page := b.String()
	require.Contains(t, page, "<h1>all_reduce #3 (float32 [16]) of group 0 (&lt;/script&gt;&lt;b&gt;{{js}}): rank 1 has not entered; rank 0 waits</h1>")
	require.Contains(t, page, `<header class="bad">`)
	require.Equal(t, 2, strings.Count(page, "</script>"))
	require.NotContains(t, page, "<b>")
	for _, outside := range []string{"http:", "https:", "src=", "href=", "url(", "import", "fetch("} {
		require.NotContains(t, page, outside)
	}
	_, rest, _ := strings.Cut(page, `<script type="application/json" id="data">`)
	text, _, _ := strings.Cut(rest, "</script>")
	var data pageData
	require.NoError(t, json.Unmarshal([]byte(text), &data))
	require.Len(t, data.Lanes, 2)
	require.Equal(t, []int{3, 4}, data.Lanes[0].Bad)
	require.Equal(t, []int{3, 4}, data.Lanes[0].Open)
	require.Equal(t, 2, data.Lanes[0].Rows)
	require.Equal(t, []string{"all_reduce #1", "broadcast #2", "send 0->1", "all_reduce #3", "all_reduce_barrier #4", "recv 1<-0"}, data.Names)
	require.Contains(t, data.Lanes[0].About[3], "missing: all_reduce #3")
	require.Equal(t, [5]float64{0, 1200, 1500, 1201, 1}, data.Lanes[0].Bars[1])
	require.Equal(t, [5]float64{1, 5000, 30_004_000, -1, 4}, data.Lanes[0].Bars[4])
	require.Equal(t, fmt.Sprint(draw(dumps, r).start), data.Start)
	require.Empty(t, data.Lanes[0].Slots)
	require.Equal(t, []any{0.0, 4000.0, 30_004_000.0, "all_reduce #3: not entered", 0.0, r.Verdict()}, data.Lanes[1].Slots[0][:])
	require.Equal(t, [][4]float64{{5000, 30_004_000, 0.5, 1}}, data.Breaks)
}

func TestManyOperations(t *testing.T) {
	dumps := big(8, 2500)
	r := Analyze(dumps)
	require.True(t, r.OK(), r)
	require.Equal(t, 2500, r.Groups[0].Collectives)
	var page, timeline bytes.Buffer
	require.NoError(t, WriteHTML(&page, dumps, r))
	require.NoError(t, WriteTimeline(&timeline, dumps, r))
	require.Less(t, page.Len(), 10<<20)
	require.Less(t, timeline.Len(), 10<<20)
}

// TestNothing: no dumps, and dumps without operations.
func TestNothing(t *testing.T) {
	for _, dumps := range []map[int]*flight.Dump{nil, {0: {Version: "2.10"}}, {1: {Groups: map[string]flight.Group{"0": {Name: "0", Ranks: []int{0, 1}}}, Entries: []flight.Entry{}}}} {
		r := Analyze(dumps)
		require.NotEmpty(t, r.String())
		var b bytes.Buffer
		require.NoError(t, WriteHTML(&b, dumps, r))
		require.NoError(t, WriteTimeline(&b, dumps, r))
	}
	require.Equal(t, "nothing to compare: no dumps", Analyze(nil).Verdict())
}

// TestProgramParses needs Node to read the page's program.
func TestProgramParses(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Log("node is not here: the page's program was not parsed")
		return
	}
	file := filepath.Join(t.TempDir(), "page.js")
	require.NoError(t, os.WriteFile(file, []byte(pageJS), 0o600))
	out, err := exec.Command(node, "--check", file).CombinedOutput()
	require.NoError(t, err, string(out))
}

// FuzzAnalyze: whatever can be read as a dump can be analyzed and drawn.
func FuzzAnalyze(f *testing.F) {
	for _, name := range []string{"torch-2.11/well_rank_0", "torch-2.11/skip_rank_1", "old.pickle"} {
		b, err := os.ReadFile("../flight/testdata/" + name)
		require.NoError(f, err)
		f.Add(b, b)
	}
	f.Add([]byte(`{"version":"2.4","pg_config":{"0":{"name":"0","ranks":"[1, 0, 0]"}},"entries":[{"process_group":["0",""],"collective_seq_id":7}]}`), []byte(nil))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		dumps := map[int]*flight.Dump{}
		for rank, text := range [][]byte{a, b} {
			if d, err := flight.Read(bytes.NewReader(text)); err == nil {
				dumps[rank] = d
			}
		}
		r := Analyze(dumps)
		var out bytes.Buffer
		if err := WriteHTML(&out, dumps, r); err != nil {
			t.Fatal(err)
		}
		if err := WriteTimeline(&out, dumps, r); err != nil {
			t.Fatal(err)
		}
	})
}

func BenchmarkAnalyze(b *testing.B) {
	dumps := big(64, 2000)
	for b.Loop() {
		Analyze(dumps)
	}
}

// TestPauses leaves out of the axis what is much longer than all else, and only that.
func TestPauses(t *testing.T) {
	const ms = int64(time.Millisecond)
	for name, c := range map[string]struct {
		bars []bar
		want string
	}{
		"nothing":         {nil, "[]"},
		"one":             {[]bar{{to: 5 * ms}}, "[]"},
		"even":            {[]bar{{to: ms}, {from: 2 * ms, to: 3 * ms}, {from: 4 * ms, to: 5 * ms}}, "[]"},
		"wait":            {[]bar{{to: ms}, {from: 2 * ms, to: 10_000 * ms}}, "[{2000000 10000000000 true 0.5}]"},
		"idle":            {[]bar{{to: ms}, {from: 500 * ms, to: 501 * ms}}, "[{1000000 500000000 false 0.04}]"},
		"idle, then wait": {[]bar{{to: ms}, {from: 500 * ms, to: 501 * ms}, {from: 501 * ms, to: 9000 * ms}}, "[{1000000 500000000 false 0.04} {501000000 9000000000 true 0.5}]"},
	} {
		p := &picture{lanes: []lane{{bars: c.bars}}}
		require.Equal(t, c.want, fmt.Sprint(p.pauses()), name)
	}
}

// TestWaitsAreDrawn draws waits until the ranks gave up, as their dumps tell, and an empty slot where a rank is absent.
func TestWaitsAreDrawn(t *testing.T) {
	const script = "group 0 default_pg 0-2\n0-2 all_reduce Float [8]\n0 all_reduce Float [8] gives-up\npause 9s\n"
	for name, c := range map[string]struct {
		script string
		to     int64 // of the wait, after its call
		slots  string
	}{
		"group failed":    {script + "failed 0-1 1 rank 1 has not entered\ndated 0-1\ndump 0-1\n", 9003, "1 all_reduce #2: not entered; 2 all_reduce #2: not entered"},
		"limit":           {script + "dump 0-1\n", 30_000, "1 all_reduce #2: not entered; 2 all_reduce #2: not entered"},
		"no dump":         {script + "dated 0-2\npause 60s\ndump 0\n", 9002, "1 all_reduce #2: no dump; 2 all_reduce #2: no dump"},
		"died":            {script + "failed 0-1 2 the process died\ndated 0-1\ndump 0-1\n", 9003, "2 died at 22:13:29.006 UTC"},
		"sends":           {"group 0 default_pg 0-1\n0 send 0->1 Float [3]\n1 recv 1<-0 Float [3]\n0 send 0->1 Float [3] waits\ndated 0-1", 1, "1 no receive"},
		"sends, unheard":  {"group 0 default_pg 0-1\n0 send 0->1 Float [3]\n1 recv 1<-0 Float [3]\n0 send 0->1 Float [3] waits\ndated 0-1\ndump 0", 1, "1 no dump"},
		"nothing is held": {"group 0 default_pg 0-1\n0-1 all_reduce Float [3]\n", 0, ""},
	} {
		dumps := play(t, c.script)
		p := draw(dumps, Analyze(dumps))
		var slots []string
		for i := range p.lanes {
			l := &p.lanes[i]
			require.Equal(t, dumps[l.rank] == nil, l.noDump, name)
			for _, s := range l.slots {
				slots = append(slots, fmt.Sprintf("%d %s", l.rank, s.text))
				require.Greater(t, s.to, s.from, name)
			}
			for _, b := range l.bars {
				if b.open() {
					require.Equal(t, c.to*int64(time.Millisecond), b.to-b.from, name)
				}
			}
		}
		require.Equal(t, c.slots, strings.Join(slots, "; "), name)
	}
}

// TestManyAbsent bounds the lanes of ranks without a dump.
func TestManyAbsent(t *testing.T) {
	dumps := play(t, "group 0 default_pg 0-1999\n0 all_reduce Float [8] waits\ndump 0\n")
	p := draw(dumps, Analyze(dumps))
	require.Len(t, p.lanes, 1+mostEmpty)
	require.Equal(t, 1999-mostEmpty, p.hidden)
}

// TestDrawsGivenUp draws a rank's call of a failed group, from a dump that was written before the rank had ended the call. The page says the same
// as the report.
func TestDrawsGivenUp(t *testing.T) {
	dumps := play(t, "group 0 default_pg 0-1\n0 all_reduce Float [8] waits\nfailed 0-1 1 rank 1 has not entered\ndated 0-1\n")
	var page strings.Builder
	require.NoError(t, WriteHTML(&page, dumps, Analyze(dumps)))
	require.Contains(t, page.String(), "given up after")
	require.NotContains(t, page.String(), "when the dump was taken")
}
