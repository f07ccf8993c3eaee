package diagnose

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/plan"
)

// TestStuckLinks names the ends of a link on which bytes are stuck, and no rank that merely waits for its neighbour.
func TestStuckLinks(t *testing.T) {
	const seq = 3 * at
	in := func(from int, sent, got map[int]int64) Snapshot {
		return Snapshot{Seq: seq, Done: 2 * at, Call: "c", At: seq, From: []int{from}, Sent: sent, Got: got}
	}
	o := &Operation{Rank: 0, Size: 4, Coll: plan.AllReduce, Seq: seq, Call: "c", After: "3s"}
	ring := Snapshots{1: in(0, map[int]int64{2: 10}, map[int]int64{0: 5}), 2: in(1, map[int]int64{3: 5}, map[int]int64{1: 5}),
		3: in(2, map[int]int64{0: 5}, map[int]int64{2: 5})}
	own := in(3, map[int]int64{1: 5}, map[int]int64{3: 5})
	r := Explain(o, own, ring)
	require.Contains(t, r.Line, "rank 2 waits for rank 1, which has sent it what does not arrive")
	require.Equal(t, []int{1, 2}, r.Suspects)

	ring[1] = Snapshot{Seq: 4 * at, Done: seq, Call: "d", At: 4 * at, From: []int{0}} // has gone on
	r = Explain(o, own, ring)
	require.Equal(t, []int{1, 2}, r.Suspects)

	ring[1] = in(0, map[int]int64{2: 5}, map[int]int64{0: 5}) // all that was sent has arrived
	require.Nil(t, Explain(o, own, ring).Suspects)
}

// TestLeft blames ranks that have closed the group only if no other rank is at fault.
func TestLeft(t *testing.T) {
	o := &Operation{Rank: 1, Size: 4, Coll: plan.Gather, Seq: 3 * at, Call: "c", After: "3s", Left: []int{0, 2}}
	own := Snapshot{Seq: 3 * at, Done: 2 * at, Call: "c"}
	r := Explain(o, own, nil)
	require.Equal(t, []int{3}, r.Suspects)
	require.Equal(t, "rank 3 does not answer after 3s; rank 1 waits; ranks 0, 2 have closed the group", r.Line)
	r = Explain(o, own, Snapshots{3: own})
	require.Equal(t, []int{0, 2}, r.Suspects)
	o.Coll, o.Peer = plan.Recv, 3
	r = Explain(o, own, nil)
	require.Equal(t, []int{3}, r.Suspects)
	require.Contains(t, r.Line, "rank 3 does not answer; ranks 0, 2 have closed the group")
}
