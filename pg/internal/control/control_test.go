package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/internal/diagnose"
	"github.com/colligo-go/colligo/transport"
)

// direct is a mesh that hands messages to the channels of one process.
type direct struct {
	transport.Mesh
	rank int
	all  []*Channel
}

func (d *direct) Notify(peer int, b []byte) error {
	if d.all[peer] == nil {
		return transport.ErrLost
	}
	d.all[peer].Receive(d.rank, b)
	return nil
}

var causes = Causes{{"timeout", colligo.ErrTimeout}, {"lost", colligo.ErrPeerLost}}

// channels links so many ranks, which compare fingerprints.
func channels(size int) []*Channel {
	all := make([]*Channel, size)
	for rank := range all {
		c := &Channel{}
		c.Init(Config{Group: "g", Rank: rank, Size: size, Log: slog.New(slog.DiscardHandler), Causes: causes, Fingerprints: true,
			Describe: func(c transport.Call) string { return fmt.Sprintf("call %d", c.Seq) }, Number: func(seq uint64) uint64 { return seq / 2 },
			Failed: func() error { return nil }, Wake: func() {}})
		c.Use(&direct{rank: rank, all: all})
		all[rank] = c
	}
	return all
}

// TestMessage holds the form that messages have between ranks of different builds.
func TestMessage(t *testing.T) {
	for form, m := range map[string]Message{
		`{"Kind":"abort","Seq":3,"Cause":"lost","Text":"x","Blame":[1,2]}`:               {Kind: Abort, Seq: 3, Cause: "lost", Text: "x", Suspects: []int{1, 2}},
		`{"Kind":"where","Token":7}`:                                                     {Kind: Query, Token: 7},
		`{"Kind":"here","Token":7,"Seq":2,"Call":"c","Done":1,"Sends":[0],"Recvs":[-1]}`: {Kind: Answer, Token: 7, Seq: 2, Call: "c", Done: 1, Sends: []int{0}, Recvs: []int{diagnose.AnyPeer}},
		`{"Kind":"called","Seq":2,"Call":"c"}`:                                           {Kind: Called, Seq: 2, Call: "c"},
		`{"Kind":"print","Seq":2,"Print":{"Coll":"all_reduce","Op":"sum","Tensors":1}}`:  {Kind: Fingerprint, Seq: 2, Fingerprint: &diagnose.Fingerprint{Coll: "all_reduce", Op: "sum", Tensors: 1}},
		`{"Kind":"dump"}`: {Kind: Dump},
		`{"Kind":"gate","Seq":4,"Call":"failed","Cause":"timeout","Text":"rank 1 is late"}`: {Kind: Barrier, Seq: 4, Call: barrierFailed, Cause: "timeout", Text: "rank 1 is late"},
	} {
		b, err := json.Marshal(&m)
		require.NoError(t, err)
		require.Equal(t, form, string(b))
		var back Message
		require.NoError(t, json.Unmarshal(b, &back))
		require.Equal(t, m, back)
	}
}

// TestFailure carries an error from one rank to another.
func TestFailure(t *testing.T) {
	m := causes.Failure(fmt.Errorf("gone: %w", colligo.ErrPeerLost), 7, []int{1, 2})
	m.Suspects = append(m.Suspects, -1, 3) // as no rank says
	err := causes.Reported(1, 3, m)
	require.EqualError(t, err, "rank 1 reported: gone: peer lost")
	require.ErrorIs(t, err, colligo.ErrPeerLost)
	require.Equal(t, []int{1, 2}, err.Suspects)

	m = causes.Failure(errors.New(strings.Repeat("why \x00 ", transport.MaxNote)), 7, make([]int, 5000))
	b, err2 := json.Marshal(m)
	require.NoError(t, err2)
	require.LessOrEqual(t, len(b), transport.MaxNote)
	require.NoError(t, causes.Reported(1, 3, m).Unwrap())
}

// TestReceive hands messages to their handlers, and goes on after those that it cannot read.
func TestReceive(t *testing.T) {
	all := channels(2)
	var got []*Message
	all[0].Handle(Dump, func(peer int, m *Message) {
		require.Equal(t, 1, peer)
		got = append(got, m)
	})
	for _, b := range []string{``, `{`, `null`, `[]`, `"dump"`, `{"Kind":"other"}`, `{"Kind":"DUMP"}`, `{"Kind":"abort"}`, `{"Kind":"here","Token":1}`} {
		all[0].Receive(1, []byte(b))
	}
	require.Empty(t, got)
	all[1].Tell(&Message{Kind: Dump})
	require.Equal(t, []*Message{{Kind: Dump}}, got)
	var zero Channel
	zero.Tell(&Message{Kind: Dump}) // to nobody
	zero.Stir()
	zero.Lost(1)
}

// TestAsk asks ranks that have come unlike far, one of which is not there.
func TestAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := channels(4)
		all[1].Progress.Enter(transport.Call{Seq: 6})
		all[1].Progress.Complete(4)
		all[2].Progress.Begin(true, 0)
		for range 2 {
			all[2].Progress.Begin(false, diagnose.AnyPeer)
		}
		all[2].Progress.End(false, diagnose.AnyPeer, 1)
		want := diagnose.Snapshots{1: {Seq: 6, Done: 4, Number: 2, Call: "call 6"}, 2: {Sends: []int{0}, Recvs: []int{diagnose.AnyPeer}}, 3: {}}
		start := time.Now()
		require.Equal(t, want, all[0].Ask(0))
		require.Zero(t, time.Since(start))

		all[3] = nil
		delete(want, 3)
		require.Equal(t, want, all[0].Ask(0))
		require.Equal(t, Patience, time.Since(start))

		all[0].config.Failed = func() error { return errors.New("failed") }
		all[0].Ask(0)
		require.Equal(t, Patience, time.Since(start), "it does not wait when the group has failed")
		require.Empty(t, all[0].queries.open)
	})
}

// TestAskHeldUp has a rank ask that gets no processor for 200 ms again and again, and a peer that is held up likewise. It waits for the
// peer's answer, which comes after Patience.
func TestAskHeldUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := channels(2)
		all[1] = nil
		all[0].config.Failed = func() error { time.Sleep(200 * time.Millisecond); return nil }
		time.AfterFunc(2*Patience, func() { all[0].answered(1, &Message{Kind: Answer, Token: 1, Seq: 7}) })
		require.Equal(t, diagnose.Snapshots{1: {Seq: 7}}, all[0].Ask(0))
	})
}

// TestAskFailed asks a rank that has failed. Its answer does not tell where its collective stood, so the rank that asks waits until it hears
// of the failure, or for Patience. It does not wait where the answer tells, nor for a rank that closes.
func TestAskFailed(t *testing.T) {
	failed := errors.New("failed")
	for _, c := range []struct {
		name   string
		err    error // of the rank that is asked
		stands *Standing
		under  bool          // whether something is under way there
		hears  time.Duration // after so long the rank that asks hears of the failure
		wait   time.Duration
	}{
		{"nothing under way", failed, nil, false, Patience / 5, Patience / 5},
		{"ended since", failed, nil, true, Patience / 5, Patience / 5},
		{"not heard", failed, nil, false, time.Hour, Patience},
		{"stands", failed, &Standing{At: 3, From: []int{0}}, true, time.Hour, 0},
		{"closes", colligo.ErrClosed, nil, false, time.Hour, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := channels(2)
				all[1].config.Failed = func() error { return c.err }
				all[1].config.Inquire = func(f func(*Standing, bool)) bool {
					if c.under {
						f(c.stands, c.stands == nil)
					}
					return c.under
				}
				var heard atomic.Bool
				all[0].config.Failed = func() error {
					if heard.Load() {
						return failed
					}
					return nil
				}
				hears := time.AfterFunc(c.hears, func() {
					heard.Store(true)
					all[0].Stir()
				})
				defer hears.Stop()
				began := time.Now()
				got := all[0].Ask(0)
				require.Equal(t, c.wait, time.Since(began))
				require.Contains(t, got, 1)
				if c.stands != nil {
					require.Equal(t, c.stands.From, got[1].From)
				}
			})
		})
	}
}

// TestProgress remembers the calls that this rank has entered last, and counts what is pending.
func TestProgress(t *testing.T) {
	var p Progress
	require.Zero(t, p.newest())
	for seq := uint64(1); seq < 3*remembered; seq++ {
		call := transport.Call{Seq: seq, Count: seq * seq}
		if seq%2 == 0 {
			p.Enter(call)
		} else {
			*p.Slot() = call
			p.Entered()
		}
		require.Equal(t, call, p.newest())
		got, ok := p.At(seq)
		require.True(t, ok)
		require.Equal(t, call, got)
		_, ok = p.At(seq - remembered)
		require.False(t, ok)
	}
	for peer := range 100 {
		p.Begin(true, peer)
	}
	sends, recvs := p.pending()
	require.Len(t, sends, diagnose.MostNamed)
	require.Empty(t, recvs)
	require.Zero(t, testing.AllocsPerRun(100, func() { p.Enter(transport.Call{Seq: 1}) }))
}

// TestCheck compares fingerprints, and bounds what peers can make a rank remember.
func TestCheck(t *testing.T) {
	all := channels(2)
	sum, barrier := &diagnose.Fingerprint{Coll: "all_reduce"}, &diagnose.Fingerprint{Coll: "barrier"}
	zero := all[0].Check(1, sum)
	require.NotNil(t, zero)
	select {
	case <-zero.Full():
		t.Fatal("rank 1 has not come")
	default:
	}
	one := all[1].Check(1, barrier)
	for rank, k := range []*Check{zero, one} {
		<-k.Full()
		require.Equal(t, "ranks differ in collective: rank 0 all_reduce, rank 1 barrier", all[rank].Compare(1, k))
		require.Empty(t, all[rank].checks.by)
	}
	for seq := range uint64(2 * maxChecks) {
		all[0].Receive(1, fmt.Appendf(nil, `{"Kind":"print","Seq":%d,"Print":{"Coll":"x"}}`, seq+2))
	}
	require.Len(t, all[0].checks.by, maxChecks)
	require.Nil(t, all[0].Check(10*maxChecks, sum))
	all[0].config.Fingerprints = false
	all[0].checks.by = nil
	all[0].Receive(1, []byte(`{"Kind":"print","Seq":1,"Print":{"Coll":"x"}}`))
	require.Empty(t, all[0].checks.by)
}

// TestMonitoredBarrier runs barriers of three ranks, of which some come late, never, or after rank 0 has decided.
func TestMonitoredBarrier(t *testing.T) {
	for _, c := range []struct {
		what  string
		delay [3]time.Duration
		all   bool
		lost  int // rank that rank 0 hears to be gone at once, 0 for none
		says  [3]string
		class error
		peer  int // at fault, as rank 0 says
	}{
		{what: "all come", delay: [3]time.Duration{time.Second, 0, 2 * time.Second}, peer: colligo.NoRank},
		{what: "one is late", delay: [3]time.Duration{0, time.Minute, 0}, class: colligo.ErrTimeout, peer: 1,
			says: [3]string{"rank 1 has not come after 5s", "rank 0 reported: rank 1 has not come after 5s", "rank 0 reported: rank 1 has not come after 5s"}},
		{what: "two are late, the first is named", delay: [3]time.Duration{0, time.Minute, time.Minute}, class: colligo.ErrTimeout, peer: 1,
			says: [3]string{"rank 1 has not come after 5s", "rank 0 reported: rank 1 has not come after 5s", "rank 0 reported: rank 1 has not come after 5s"}},
		{what: "two are late, both are named", delay: [3]time.Duration{0, time.Minute, time.Minute}, all: true, class: colligo.ErrTimeout, peer: 1,
			says: [3]string{"ranks 1-2 have not come after 5s", "rank 0 reported: ranks 1-2 have not come after 5s", "rank 0 reported: ranks 1-2 have not come after 5s"}},
		{what: "one is gone", delay: [3]time.Duration{0, 0, time.Minute}, lost: 2, class: colligo.ErrPeerLost, peer: 2,
			says: [3]string{"rank 2 has left", "rank 0 reported: rank 2 has left", "rank 0 reported: rank 2 has left"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			all := channels(3)
			if c.lost > 0 {
				all[0].Lost(c.lost)
			}
			var ranks sync.WaitGroup
			for rank, ch := range all {
				ranks.Go(func() {
					time.Sleep(c.delay[rank])
					seq, peer, err := ch.MonitoredBarrier(t.Context(), 5*time.Second, c.all)
					require.EqualValues(t, 1, seq, c.what)
					if rank == 0 {
						require.Equal(t, c.peer, peer, c.what)
					}
					if c.class == nil {
						require.NoError(t, err, c.what)
						return
					}
					require.EqualError(t, err, c.says[rank], c.what)
					require.ErrorIs(t, err, c.class, c.what)
				})
			}
			ranks.Wait()
		})
	}
}

// TestMonitoredBarrierEnds when the context or the group does, and refuses a second call meanwhile.
func TestMonitoredBarrierEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := channels(2)
		var failed error
		var mu sync.Mutex
		all[1].config.Failed = func() error {
			mu.Lock()
			defer mu.Unlock()
			return failed
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _, err := all[1].MonitoredBarrier(ctx, time.Hour, false)
		require.EqualError(t, err, "rank 0 has not answered after 1s: context deadline exceeded")
		require.ErrorIs(t, err, colligo.ErrTimeout)
		time.AfterFunc(time.Second, func() {
			_, _, err := all[1].MonitoredBarrier(t.Context(), 0, false)
			require.ErrorIs(t, err, errTwice)
			mu.Lock()
			failed = errors.New("enough")
			mu.Unlock()
			all[1].Stir()
		})
		seq, _, err := all[1].MonitoredBarrier(t.Context(), time.Hour, false)
		require.EqualError(t, err, "rank 0 has not answered after 1s: enough")
		require.EqualValues(t, 2, seq)
	})
}
