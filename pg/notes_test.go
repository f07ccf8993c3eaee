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
	"github.com/colligo-go/colligo/pg/internal/control"
	"github.com/colligo-go/colligo/pg/internal/host"
	"github.com/colligo-go/colligo/pg/internal/op"
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
		c.Recorder.Entries = -1 // a note that asks for a dump writes none
		groups := inProcess(t, 2, c)
		g := groups[0]
		q := g.control.Expect()
		g.control.Receive(1, b)
		var n control.Message
		if json.Unmarshal(b, &n) == nil && n.Kind == control.Abort {
			require.ErrorContains(t, g.Err(), "rank 1 reported: ")
			return
		}
		require.NoError(t, g.Err())
		if n.Kind == control.Answer && n.Token == q.Token() {
			require.Len(t, q.End(), 1)
		} else {
			require.Empty(t, q.End())
		}
	})
}

// TestNoteBeforeTheMesh has notes come before the rank is linked with all.
func TestNoteBeforeTheMesh(t *testing.T) {
	g := &Group{member: member{name: "early", size: 3}, log: quiet.Log, job: &sharedJob{}, host: host.New(host.Config{Size: 3})}
	g.handle()
	g.listen()
	g.control.Receive(1, []byte(`{"Kind":"where","Token":1}`))
	g.control.Receive(1, []byte(`{"Kind":"here","Token":0}`))
	g.onLost(2, transport.ErrLost)
	require.NoError(t, g.Err())
	g.control.Receive(1, []byte(`{"Kind":"abort","Cause":"mismatch","Text":"said so"}`))
	require.ErrorIs(t, g.Err(), colligo.ErrMismatch)
}

// TestLongReason fails a group with a reason that no note could hold; the peer hears of it all the same.
func TestLongReason(t *testing.T) {
	groups := inProcess(t, 2, quiet)
	groups[0].fail(errors.New(strings.Repeat("why \x00 ", 100_000)), true)
	for limit := time.Now().Add(time.Minute); groups[1].Err() == nil; time.Sleep(time.Millisecond) {
		require.True(t, time.Now().Before(limit), "the peer has not heard of it")
	}
	require.ErrorContains(t, groups[1].Err(), "rank 0 reported: why")
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

// TestTwoLateAtOnce has two operations of a rank found late by two goroutines, shortly one after the other. A rank that has
// answered the first question is not taken for silent.
func TestTwoLateAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		groups := inProcess(t, 3, quiet)
		for _, g := range groups[1:] {
			g.use(slowToAnswer{*g.mesh.Load(), g.rank == 2})
		}
		var all sync.WaitGroup
		for i := range 2 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * (control.Patience - 10*time.Millisecond))
				(&events{groups[0]}).late(&op.Op{Seq: op.SeqOf(1), Coll: plan.Barrier, Size: 3}, "")
			})
		}
		all.Wait()
		require.ErrorContains(t, groups[0].Err(), "rank 2 does not answer")
		require.Equal(t, []int{2}, suspectsOf(groups[0].Err()))
	})
}
