package oplog

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/plan"
)

// TestTrafficKept runs more plans than are kept apart, in two rounds. The counts are those of all runs.
func TestTrafficKept(t *testing.T) {
	tr := traffic{rank: 1, size: 3}
	const plans = 2*keptPlans + 3
	all, bytes := make([]*plan.Plan, plans), uint64(0)
	for i := range all {
		all[i] = &plan.Plan{Shape: plan.Shape{Rank: 1, Size: 3, Elem: 4}, Lanes: [][]plan.Step{
			{{To: 2, From: plan.None, Src: plan.Span{Len: i}}, {To: plan.None, From: 1, Src: plan.Span{Len: 9}, Dst: plan.Span{Len: 9}}},
			{{To: 2, From: 0, Src: plan.Span{Len: 1}, Dst: plan.Span{Len: 5}}},
		}}
		bytes += uint64(4 * (i + 1))
	}
	for range 2 {
		for _, p := range all {
			tr.ran(p)
		}
	}
	tr.message(true, 0, 7)
	tr.message(false, 2, 8)
	tr.message(true, 1, 9)  // to itself
	tr.message(true, -1, 9) // from any peer
	require.Equal(t, []Peer{
		{SentBytes: 7, SentMessages: 1, ReceivedBytes: 2 * plans * 20, ReceivedMessages: 2 * plans}, {},
		{SentBytes: 2 * bytes, SentMessages: 2 * 2 * plans, ReceivedBytes: 8, ReceivedMessages: 1},
	}, tr.peers())
	require.LessOrEqual(t, len(tr.plans), keptPlans)
	require.Zero(t, testing.AllocsPerRun(100, func() { tr.ran(all[plans-1]); tr.message(true, 0, 1) }))
}

// TestTrafficOfNone has no group.
func TestTrafficOfNone(t *testing.T) { require.Empty(t, new(traffic).peers()) }
