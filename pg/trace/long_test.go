package trace

import (
	"bytes"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/pg/flight"
)

// shared is what two ranks have recorded: each operation waits, and all of its texts are one of a MiB.
func shared(each int) map[int]*flight.Dump {
	long := "nccl:" + strings.Repeat("x", 1<<20)
	desc, types := long+"desc", []string{long}
	dumps := big(2, each)
	for rank, d := range dumps {
		d.Version = "2." + long
		d.Groups = map[string]flight.Group{long: {Name: long, Desc: desc, Ranks: []int{0, 1}}}
		d.Failures = map[string]flight.Failure{long: {Text: long, Ranks: []int{1 - rank}}}
		for i := range d.Entries {
			e := &d.Entries[i]
			e.Group, e.Desc, e.Name, e.InTypes, e.OutTypes = long, desc, long, types, types
			e.State, e.Retired, e.Frames = flight.Started, false, []flight.Frame{{Name: long, File: long, Line: 1}}
			if i%2 == 0 {
				e.Seq = 1 // calls under one number are listed together
			}
		}
	}
	return dumps
}

// TestLongTexts draws dumps whose operations share a very long text. Neither memory nor pages grow with its length.
func TestLongTexts(t *testing.T) {
	dumps := shared(1000)
	dumps[1].Entries = dumps[1].Entries[:900]
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r := Analyze(dumps)
	var page, timeline bytes.Buffer
	require.NoError(t, WriteHTML(&page, dumps, r))
	require.NoError(t, WriteTimeline(&timeline, dumps, r))
	runtime.ReadMemStats(&after)
	t.Logf("report %d, page %d, timeline %d, allocated %d bytes", len(r.String()), page.Len(), timeline.Len(), after.TotalAlloc-before.TotalAlloc)
	require.False(t, r.OK())
	require.Less(t, len(r.String()), 256<<10)
	require.Less(t, page.Len(), 16<<20)
	require.Less(t, timeline.Len(), 16<<20)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(400<<20))
}

// TestClip keeps both ends of a long text, and whole letters.
func TestClip(t *testing.T) {
	require.Equal(t, "short", clipName("short"))
	long := strings.Repeat("é", 1000) + "end"
	got := clipName(long)
	require.Less(t, len(got), 300)
	require.True(t, strings.HasPrefix(got, "ééé"))
	require.True(t, strings.HasSuffix(got, "ééend"), got)
	require.Contains(t, got, "... (2003 bytes) ...")
	require.NotContains(t, got, "\uFFFD")
}
