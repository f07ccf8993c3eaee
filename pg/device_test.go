package pg

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/pg/backend"
	"github.com/colligo-go/colligo/pg/flight"
	"github.com/colligo-go/colligo/pg/internal/host"
	"github.com/colligo-go/colligo/pg/internal/op"
	"github.com/colligo-go/colligo/plan"
)

// machine is a backend whose calls are done when the test says so.
type machine struct {
	done atomic.Uint64
	err  error
}

func (m *machine) Run(context.Context, *backend.Call) (backend.Pending, error) { return nil, nil }
func (m *machine) Abort(error)                                                 {}
func (m *machine) Close() error                                                { return nil }

// tracked is a machine that tells how far it is.
type tracked struct{ machine }

func (m *tracked) Finished(plan.Coll) uint64 { return m.done.Load() }

// job is one of a machine's asynchronous calls.
type job struct {
	m    *machine
	n    uint64
	took time.Duration
}

func (j *job) Wait(context.Context) error        { return nil }
func (j *job) Synchronize(context.Context) error { return j.m.err }
func (j *job) Done() bool                        { return j.m.done.Load() >= j.n }
func (j *job) Begun() bool                       { return j.took > 0 }
func (j *job) Took() (time.Duration, bool)       { return j.took, j.took > 0 }

// following is a group without links whose follower can be watched.
func following(t *testing.T) (*Group, *[]WorkInfo) {
	g := &Group{member: member{name: "0", size: 2, ranks: []int{0, 1}}, log: slog.New(slog.DiscardHandler),
		job: newJob(nil, flight.New(100, 0)), host: host.New(host.Config{Size: 2})}
	g.limits.timeout = time.Minute
	g.handle()
	g.devices.watch.Open(&events{g}, &g.ops)
	g.ops.Open(g.job.dumper.recorder, g.name, g.Desc(), g.rank, g.ranks, false)
	var heard []WorkInfo
	g.OnCompletion(func(w WorkInfo) { heard = append(heard, w) })
	t.Cleanup(func() {
		g.devices.watch.Close()
		g.ops.Hooks.Close()
	})
	return g, &heard
}

// numbered gives a call of a group its number in the order and hands it to a backend.
func numbered(g *Group, b backend.Backend, coll plan.Coll, p backend.Pending) {
	o := &op.Op{Coll: coll, Size: 2, Peer: 1}
	g.state.mu.Lock()
	g.number(o, 0)
	g.state.mu.Unlock()
	g.devices.watch.Add(g.devices.watch.CallsOf(b), o, p)
}

// settle gives the follower time to look.
func settle() {
	time.Sleep(time.Second)
	synctest.Wait()
}

func states(g *Group) (s []flight.State) {
	for _, e := range g.Dump(flight.DumpOptions{Entries: true}).Entries {
		s = append(s, e.State)
	}
	return s
}

// TestFollowWorks concludes asynchronous calls as they are done, and no call before one of its kind that came earlier.
func TestFollowWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, heard := following(t)
		m := &machine{}
		for i := range uint64(1000) {
			numbered(g, m, plan.Barrier, &job{m: m, n: i + 1, took: time.Millisecond})
		}
		stuck := &machine{}
		numbered(g, stuck, plan.Send, &job{m: stuck, n: 1})
		for done := range uint64(10) {
			m.done.Store(100 * (done + 1))
			settle()
			require.Len(t, *heard, int(100*(done+1)))
			require.Equal(t, 901-100*int(done), g.Pending())
		}
		require.Equal(t, time.Millisecond, (*heard)[999].Active)
		stuck.err = errors.New("out of order")
		stuck.done.Store(1)
		require.NoError(t, g.WaitPending(t.Context()))
		require.ErrorIs(t, (*heard)[1000].Err, stuck.err)
		require.Equal(t, uint64(1), g.Metrics().Ops["SEND"].Failed)
	})
}

// TestFollowCalls asks a backend for blocking calls, of which those that other backends take are over at once.
func TestFollowCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, heard := following(t)
		m, mute := &tracked{}, &machine{}
		for range 3 {
			numbered(g, m, plan.Barrier, nil)
		}
		settle()
		require.Empty(t, *heard)
		m.done.Store(2)
		settle()
		require.Len(t, *heard, 2)
		require.Equal(t, []flight.State{flight.Completed, flight.Completed, flight.Scheduled}, states(g))
		numbered(g, mute, plan.Recv, nil)
		settle()
		require.Len(t, *heard, 3)
		require.Equal(t, OpRecv, (*heard)[2].Op)
	})
}

// TestFollowBlock gives calls that are launched as one their Pending at the end.
func TestFollowBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, heard := following(t)
		m := &machine{}
		g.devices.watch.Hold()
		numbered(g, m, plan.Barrier, nil)
		numbered(g, m, plan.Barrier, nil)
		settle()
		g.devices.watch.Release(&job{m: m, n: 1})
		settle()
		require.Empty(t, *heard)
		m.done.Store(1)
		settle()
		require.Len(t, *heard, 2)
	})
}

// TestFollowToTheEnd ends everything when the group is closed, what was captured without a word.
func TestFollowToTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, heard := following(t)
		m, graph := &tracked{}, &machine{err: backend.ErrCaptured}
		numbered(g, m, plan.Barrier, nil)
		numbered(g, m, plan.Barrier, nil)
		numbered(g, graph, plan.Send, &job{m: graph})
		settle()
		m.done.Store(1)
		end := errors.New("the end")
		g.state.mu.Lock()
		g.state.err = end
		g.state.mu.Unlock()
		g.devices.watch.Close()
		g.ops.Hooks.Close()
		require.Len(t, *heard, 2)
		require.NoError(t, (*heard)[0].Err)
		require.ErrorIs(t, (*heard)[1].Err, end)
		require.Zero(t, g.Pending())
		for _, e := range g.Dump(flight.DumpOptions{Entries: true}).Entries {
			require.True(t, e.Retired)
		}
	})
}
