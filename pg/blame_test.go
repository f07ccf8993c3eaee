package pg

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/plan"
	"github.com/colligo-go/colligo/transport"
)

// TestCulprits tells whose doing it is that rank 1 of four is late, in its third collective or in a receive from rank 2.
func TestCulprits(t *testing.T) {
	const at = 1 << placeBits
	here, idle, gone := note{Seq: 3 * at, Done: 2 * at}, note{Seq: 2 * at, Done: 2 * at}, note{Seq: 4 * at, Done: 3 * at}
	before := note{Seq: 2 * at, Done: at}
	from := func(peer int) note { return note{Seq: 2 * at, Done: 2 * at, Recvs: []int{peer}} }
	for _, c := range []struct {
		what       string
		kind       plan.Coll
		r0, r2, r3 *note // nil does not answer
		blamed     []int
	}{
		{"one does not answer", plan.AllReduce, &idle, nil, &before, []int{2}},
		{"two do not answer", plan.Recv, &here, nil, nil, []int{2, 3}},
		{"one has not come", plan.AllReduce, &here, &idle, &gone, []int{2}},
		{"one has not come, and holds up another", plan.AllReduce, &here, &idle, &before, []int{2}},
		{"two have not come", plan.AllReduce, &idle, &here, &idle, []int{0, 3}},
		{"one waits for a message from one that has nothing to do in the collective", plan.AllReduce, &here, ptr(from(0)), &here, []int{0}},
		{"one waits for a message from this rank", plan.AllReduce, &here, &here, ptr(from(1)), []int{1}},
		{"two wait in an earlier collective for each other", plan.AllReduce, &before, &before, &here, nil},
		{"all have come", plan.AllReduce, &here, &here, &here, nil},
		{"one has not come on a device", plan.Barrier, &here, &idle, &before, []int{2, 3}},
		{"all have come on a device", plan.Barrier, &here, &here, &gone, nil},
		{"the peer has nothing to do", plan.Recv, &before, &idle, &before, []int{2}},
		{"the peer waits for one that has nothing to do", plan.Recv, &here, ptr(from(3)), &idle, []int{3}},
		{"the peer waits in a collective", plan.Recv, &gone, &here, &gone, []int{2}},
		{"the peer waits in a collective that one has not come to", plan.Recv, &here, &here, &idle, []int{3}},
		{"the peer waits for this rank", plan.Recv, &here, ptr(from(1)), &here, nil},
		{"the peer waits for any rank", plan.Recv, &here, ptr(from(anyPeer)), &here, nil},
	} {
		g := &Group{size: 4, rank: 1}
		op := &operation{seq: 3 * at}
		op.coll = c.kind
		g.completed.Store(2 * at)
		switch c.kind {
		case plan.Barrier:
			op.device = colligo.Device{Kind: colligo.CUDA}
		case plan.Recv:
			op.peer = 2
			g.owing.add(op)
			g.completed.Store(3 * at)
		}
		g.entered.set(transport.Call{Seq: 3 * at})
		got := map[int]note{}
		for peer, n := range map[int]*note{0: c.r0, 2: c.r2, 3: c.r3} {
			if n != nil {
				got[peer] = *n
			}
		}
		require.Equal(t, c.blamed, g.culprits(op, got), c.what)
	}
}

func ptr[T any](v T) *T { return &v }

// TestBlamed finds whose doing an error is, also where a peer has told it.
func TestBlamed(t *testing.T) {
	lost := classify(fmt.Errorf("all_reduce: %w", &transport.PeerError{Peer: 3, Err: transport.ErrLost}))
	late := &colligo.OpError{Rank: 0, Peer: colligo.NoRank, Err: &blame{errors.New("late"), []int{1, 2}}}
	for _, c := range []struct {
		err    error
		blamed []int
	}{
		{nil, nil}, {errors.New("no reason"), nil}, {lost, []int{3}}, {late, []int{1, 2}},
		{&transport.PeerError{Peer: 3, Err: errors.New("not lost")}, nil},
		{&reported{peer: 1, text: lost.Error()}, nil},
	} {
		require.Equal(t, c.blamed, blamed(c.err), "%v", c.err)
	}
	require.Equal(t, "late", errors.Unwrap(late).Error())

	n := abortNote(late, 7)
	n.Blame = append(n.Blame, -1, 3) // as no rank says
	b, err := json.Marshal(n)
	require.NoError(t, err)
	g := &Group{size: 3, log: quiet.Log}
	g.onNote(1, b)
	require.Equal(t, []int{1, 2}, blamed(g.Err()))
}
