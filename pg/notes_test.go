package pg

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/plan"
	"github.com/colligo-go/colligo/transport"
)

// FuzzNote has a rank take whatever a peer sends on the control channel. Only a well-formed abort ends the group.
func FuzzNote(f *testing.F) {
	for _, seed := range []string{`{"Kind":"abort","Seq":3,"Cause":"lost","Text":"x"}`, `{"Kind":"where","Token":7}`, `{"Kind":"here","Token":1,"Seq":2}`,
		`{"Kind":"here","Token":18446744073709551615}`, `{"Kind":"abort","Seq":-1}`, `{"Kind":"other"}`, `{`, ``, `null`, `[]`, `"abort"`,
		`{"Kind":"abort","Cause":"nonsense"}`, "\xff\xfe", `{"kind":"ABORT"}`,
		`{"Kind":"dump"}`, `{"Kind":"print","Seq":1}`, `{"Kind":"print","Seq":1,"Print":{"Coll":"barrier"}}`, `{"Kind":"here","Token":1,"Recvs":[-1,9],"Done":4}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c := quiet
		c.Watch.Entries = -1 // a note that asks for a dump writes none
		groups := inProcess(t, 2, c)
		g := groups[0]
		q := g.answers.ask()
		g.onNote(1, b)
		var n note
		if json.Unmarshal(b, &n) == nil && n.Kind == noteAbort {
			require.ErrorContains(t, g.Err(), "rank 1 reported: ")
			return
		}
		require.NoError(t, g.Err())
		if n.Kind == noteHere && n.Token == q.token {
			require.Len(t, g.answers.end(q), 1)
		} else {
			require.Empty(t, g.answers.end(q))
		}
	})
}

// TestNoteBeforeTheMesh has notes come before the rank is linked with all.
func TestNoteBeforeTheMesh(t *testing.T) {
	g := &Group{name: "early", size: 3, log: quiet.Log}
	g.onNote(1, []byte(`{"Kind":"where","Token":1}`))
	g.onNote(1, []byte(`{"Kind":"here","Token":0}`))
	g.onLost(2, transport.ErrLost)
	require.NoError(t, g.Err())
	g.onNote(1, []byte(`{"Kind":"abort","Cause":"mismatch","Text":"said so"}`))
	require.ErrorIs(t, g.Err(), colligo.ErrMismatch)
}

// TestLongReason fails a group with a reason that no note could hold; the peer hears of it all the same.
func TestLongReason(t *testing.T) {
	groups := inProcess(t, 2, quiet)
	groups[0].fail(errors.New(strings.Repeat("why \x00 ", 100_000)), true)
	for limit := time.Now().Add(5 * time.Second); groups[1].Err() == nil; time.Sleep(time.Millisecond) {
		require.True(t, time.Now().Before(limit), "the peer has not heard of it")
	}
	require.ErrorContains(t, groups[1].Err(), "rank 0 reported: why")
}

// TestWord makes the line about a late operation of what peers answer.
func TestWord(t *testing.T) {
	g := &Group{size: 6, rank: 2, id: 5}
	const at = 1 << placeBits
	op := &operation{seq: 17 * at}
	op.request = request{coll: 1, size: 6, dtype: colligo.Float32, elem: 4, count: 10}
	ours := describe(g.call(op))
	here, before, after := note{Seq: 17 * at, Call: ours}, note{Seq: 16 * at, Call: "barrier #16"}, note{Seq: 18 * at, Call: "barrier #18"}
	other := note{Seq: 17 * at, Call: "barrier #17"}
	for says, got := range map[string]map[int]note{
		"rank 3 has not entered after 30s; ranks 0-2, 4-5 wait":                                           {0: here, 1: here, 3: before, 4: here, 5: here},
		"ranks 3-4 have not entered after 30s; rank 5 does not answer after 30s":                          {0: here, 1: here, 3: before, 4: {}},
		"ranks 0-1, 3-5 do not answer after 30s; rank 2 waits":                                            {},
		"not finished after 30s though every rank has entered; ranks 0-5 wait":                            {0: here, 1: here, 3: here, 4: here, 5: here},
		"rank 5 has not entered after 30s; ranks 1-4 wait; rank 0 has gone on":                            {0: after, 1: here, 3: here, 4: here, 5: before},
		"not finished after 30s though every rank has entered; ranks 1-2 wait; ranks 0, 3-5 have gone on": {0: after, 1: here, 3: after, 4: after, 5: after},
		"after 30s rank 4 is in barrier #17, this rank in all_reduce #17 (10 float32 elements, sum)":      {0: here, 1: before, 3: here, 4: other, 5: here},
	} {
		err := g.word(op, 30*time.Second, got)
		require.ErrorContains(t, err, says)
		want := colligo.ErrTimeout
		if strings.HasPrefix(says, "after") {
			want = colligo.ErrMismatch
		}
		require.ErrorIs(t, err, want)
	}
}

// slowToAnswer is a mesh over which answers take their time, or with none do not go at all.
type slowToAnswer struct {
	transport.Mesh
	none bool
}

func (m slowToAnswer) Notify(peer int, b []byte) error {
	if !bytes.Contains(b, []byte(`"here"`)) {
		return m.Mesh.Notify(peer, b)
	}
	if !m.none {
		time.AfterFunc(20*time.Millisecond, func() { _ = m.Mesh.Notify(peer, b) })
	}
	return nil
}

// TestTwoLateAtOnce has two operations of a rank found late by two goroutines, shortly one after the other: who has answered
// the first question is not taken for silent.
func TestTwoLateAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		groups := inProcess(t, 3, quiet)
		for _, g := range groups[1:] {
			g.use(slowToAnswer{g.mesh, g.rank == 2})
		}
		var all sync.WaitGroup
		for i := range 2 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * (patience - 10*time.Millisecond))
				groups[0].timedOut(&operation{seq: 1 << placeBits, request: request{coll: plan.Barrier, size: 3}})
			})
		}
		all.Wait()
		require.ErrorContains(t, groups[0].Err(), "rank 2 does not answer")
		require.Equal(t, []int{2}, blamed(groups[0].Err()))
	})
}
