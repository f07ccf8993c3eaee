package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/plan"
)

// TestStanding measures what has left and arrived, step by step, so that both ends of a link count the same.
func TestStanding(t *testing.T) {
	lane := []plan.Step{
		{To: 1, From: plan.None, Src: plan.Span{Len: 3}},
		{To: plan.None, From: 1, Dst: plan.Span{Len: 2}},
		{To: 2, From: 1},
	}
	r := Run{plan: &plan.Plan{Shape: plan.Shape{Rank: 0, Size: 3, Elem: 4}, Lanes: [][]plan.Step{lane}}, lanes: []cursor{{}}}
	at := func(c cursor) Standing {
		r.lanes[0] = c
		return r.Standing()
	}
	s := at(cursor{sent: 4, in: true})
	require.Equal(t, int64(4), s.Sent[1])
	require.Empty(t, s.From)
	s = at(cursor{step: 1, got: 4, out: true})
	require.Equal(t, int64(13), s.Sent[1], "12 bytes and the step")
	require.Equal(t, int64(4), s.Got[1])
	require.Equal(t, []int{1}, s.From)
	moved := s.Moved
	s = at(cursor{step: 2, in: true})
	require.Equal(t, int64(9+1), s.Got[1])
	require.Equal(t, int64(0), s.Sent[2])
	require.NotEqual(t, moved, s.Moved)
	s = at(cursor{step: 3})
	require.Equal(t, int64(1), s.Sent[2])
	require.Empty(t, s.From)
}
