package streamorder

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/pg/backend"
	"github.com/colligo-go/colligo/plan"
)

// noted is a backend that notes in a list, which it shares with another one, what it is given.
type noted struct {
	Partner
	Tensors
	name string
	list *[]string
	done map[Queue]uint64
	end  error
}

func (b *noted) note(what string) { *b.list = append(*b.list, b.name+" "+what) }

func (b *noted) Run(_ context.Context, c *backend.Call) (backend.Pending, error) {
	b.note(c.Coll.String())
	if c.Async {
		return &notedPending{b: b, of: c.Coll}, nil
	}
	return nil, nil
}

func (b *noted) Finished(c plan.Coll) uint64 { return b.done[QueueOf(c)] }
func (b *noted) Abort(cause error)           { b.note(cause.Error()) }
func (b *noted) Close() error                { b.note("close"); return b.end }

type notedPending struct {
	backend.Pending
	b  *noted
	of plan.Coll
}

func (p *notedPending) Wait(context.Context) error { p.b.note("waited for"); return nil }

// TestPair has two backends share calls. A collective waits for the asynchronous one of the other backend only, messages and captured
// operations for none.
func TestPair(t *testing.T) {
	t.Parallel()
	device := simulated(t, nil)
	var list []string
	a := &noted{name: "a", list: &list, done: map[Queue]uint64{}, end: errors.New("first")}
	b := &noted{name: "b", list: &list, done: map[Queue]uint64{}, end: errors.New("second")}
	x := MakePair(device, a, b)
	give := func(c backend.Call, by int) {
		_, err := x.Give(t.Context(), &c, by)
		require.NoError(t, err)
	}
	give(backend.Call{Coll: plan.AllReduce}, 0)
	give(backend.Call{Coll: plan.AllReduce}, 1)
	require.Equal(t, []string{"a all_reduce", "b all_reduce"}, list, "what is not asynchronous is in the stream's order")
	list = nil
	give(backend.Call{Coll: plan.AllReduce, Async: true}, 0)
	give(backend.Call{Coll: plan.Broadcast}, 0)
	give(backend.Call{Coll: plan.Send}, 1)
	give(backend.Call{Coll: plan.Reduce}, 1)
	require.Equal(t, []string{"a all_reduce", "a broadcast", "b send", "a waited for", "b reduce"}, list)
	list = nil
	both, err := x.Barrier(t.Context(), &backend.Call{Coll: plan.Barrier, Async: true}, 1)
	require.NoError(t, err)
	require.Len(t, both, 2)
	require.Equal(t, [2]uint64{3, 2}, x.Carried(), "without the barrier and the message")
	b.done = map[Queue]uint64{Collectives: 3, Sends: 1}
	require.Zero(t, x.Finished(plan.AllReduce), "the first is not done")
	a.done = map[Queue]uint64{Collectives: 2}
	require.EqualValues(t, 3, x.Finished(plan.AllReduce))
	a.done = map[Queue]uint64{Collectives: 4}
	require.EqualValues(t, 6, x.Finished(plan.AllReduce))
	require.EqualValues(t, 1, x.Finished(plan.Send))
	list = nil
	require.NoError(t, OnDevice(device, func(t2 cuda.Thread) error {
		s, err := t2.NewStream(0)
		require.NoError(t, err)
		require.NoError(t, t2.BeginCapture(s, cuda.CaptureRelaxed))
		give(backend.Call{Coll: plan.AllReduce, Async: true}, 1)
		_, err = x.Give(OnStream(t.Context(), s), &backend.Call{Coll: plan.AllReduce}, 0)
		require.NoError(t, err)
		g, err := t2.EndCapture(s)
		return errors.Join(err, t2.DestroyGraph(g), t2.DestroyStream(s))
	}))
	require.NotContains(t, list, "b waited for", "a graph waits for nothing outside itself")
	list = nil
	x.Abort(errors.New("gone"))
	require.EqualError(t, x.Close(), "first\nsecond")
	require.Equal(t, []string{"a gone", "b gone", "a close", "b close"}, list)
}
