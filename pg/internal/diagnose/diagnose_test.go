package diagnose

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/plan"
)

// at is what a collective with a number of its own adds to Seq and Done, as in package pg.
const at = 1 << 16

// TestSuspects tells which ranks are at fault when rank 1 of four is late, in its third collective or in a receive from rank 2.
func TestSuspects(t *testing.T) {
	here, idle, gone := Snapshot{Seq: 3 * at, Done: 2 * at}, Snapshot{Seq: 2 * at, Done: 2 * at}, Snapshot{Seq: 4 * at, Done: 3 * at}
	before := Snapshot{Seq: 2 * at, Done: at}
	from := func(peer int) *Snapshot { return &Snapshot{Seq: 2 * at, Done: 2 * at, Recvs: []int{peer}} }
	for _, c := range []struct {
		what       string
		kind       plan.Coll
		r0, r2, r3 *Snapshot // nil does not answer
		suspects   []int
	}{
		{"one does not answer", plan.AllReduce, &idle, nil, &before, []int{2}},
		{"two do not answer", plan.Recv, &here, nil, nil, []int{2, 3}},
		{"one has not come", plan.AllReduce, &here, &idle, &gone, []int{2}},
		{"one has not come, and holds up another", plan.AllReduce, &here, &idle, &before, []int{2}},
		{"two have not come", plan.AllReduce, &idle, &here, &idle, []int{0, 3}},
		{"one waits for a message from one that has nothing to do in the collective", plan.AllReduce, &here, from(0), &here, []int{0}},
		{"one waits for a message from this rank", plan.AllReduce, &here, &here, from(1), []int{1}},
		{"two wait in an earlier collective for each other", plan.AllReduce, &before, &before, &here, nil},
		{"all have come", plan.AllReduce, &here, &here, &here, nil},
		{"one has not come on a device, and holds up another", plan.Barrier, &here, &idle, &before, []int{2}},
		{"one hangs on its device in an earlier collective", plan.Barrier, &here, &before, &here, []int{2}},
		{"one waits for a message on a device", plan.Barrier, &here, from(0), &here, []int{0}},
		{"all have come on a device", plan.Barrier, &here, &here, &gone, nil},
		{"the peer has nothing to do", plan.Recv, &before, &idle, &before, []int{2}},
		{"the peer waits for one that has nothing to do", plan.Recv, &here, from(3), &idle, []int{3}},
		{"the peer waits in a collective", plan.Recv, &gone, &here, &gone, []int{2}},
		{"the peer waits in a collective that one has not come to", plan.Recv, &here, &here, &idle, []int{3}},
		{"the peer waits for this rank", plan.Recv, &here, from(1), &here, nil},
		{"the peer waits for any rank", plan.Recv, &here, from(AnyPeer), &here, nil},
	} {
		o := &Operation{Rank: 1, Size: 4, Coll: c.kind, Seq: 3 * at, After: "30s"}
		own := Snapshot{Seq: 3 * at, Done: 2 * at}
		switch c.kind {
		case plan.Barrier:
			o.Device = true
		case plan.Recv:
			o.Peer = 2
			own.Done, own.Recvs = 3*at, []int{2}
		}
		got := Snapshots{}
		for peer, s := range map[int]*Snapshot{0: c.r0, 2: c.r2, 3: c.r3} {
			if s != nil {
				got[peer] = *s
			}
		}
		r := Explain(o, own, got)
		require.Equal(t, colligo.ErrTimeout, r.Class, c.what)
		require.Equal(t, c.suspects, r.Suspects, c.what)
	}
}

// TestLine makes the line about a late collective of what peers answer.
func TestLine(t *testing.T) {
	const ours = "all_reduce #17 (10 float32 elements, sum)"
	past := map[uint64]string{15 * at: "barrier #15", 16 * at: "barrier #16"}
	o := &Operation{Rank: 2, Size: 6, Coll: plan.AllReduce, Seq: 17 * at, Call: ours, After: "30s", Past: past}
	here, before, after := Snapshot{Seq: 17 * at, Call: ours}, Snapshot{Seq: 16 * at, Call: "barrier #16"}, Snapshot{Seq: 18 * at, Call: "barrier #18"}
	other := Snapshot{Seq: 17 * at, Call: "barrier #17"}
	same, another := after, after
	same.Asked, another.Asked = ours, "barrier #17"
	astray := Snapshot{Seq: 15 * at, Call: "all_reduce #15"}
	busy := Snapshot{Seq: 15 * at, Done: 14 * at, Number: 14, Call: "barrier #15", Sends: []int{0}, Recvs: []int{AnyPeer}}
	for says, got := range map[string]Snapshots{
		"rank 3 has not entered after 30s; ranks 0-2, 4-5 wait":                                                    {0: here, 1: here, 3: before, 4: here, 5: here},
		"ranks 3-4 have not entered after 30s; rank 5 does not answer after 30s":                                   {0: here, 1: here, 3: before, 4: {}},
		"ranks 0-1, 3-5 do not answer after 30s; rank 2 waits":                                                     {},
		"not finished after 30s though every rank has entered; ranks 0-5 wait":                                     {0: here, 1: here, 3: here, 4: here, 5: here},
		"rank 5 has not entered after 30s; ranks 1-4 wait; rank 0 has gone on":                                     {0: after, 1: here, 3: here, 4: here, 5: before},
		"not finished after 30s though every rank has entered; ranks 1-2 wait; ranks 0, 3-5 have gone on":          {0: after, 1: here, 3: after, 4: after, 5: after},
		"after 30s rank 4 is in barrier #17, this rank in all_reduce #17 (10 float32 elements, sum)":               {0: here, 1: before, 3: here, 4: other, 5: here},
		"after 30s rank 4 has gone on from barrier #17, this rank is in all_reduce #17 (10 float32 elements, sum)": {0: same, 1: before, 3: here, 4: another, 5: here},
		"after 30s rank 4 is in all_reduce #15, this rank has gone on from barrier #15":                            {0: here, 1: before, 3: busy, 4: astray, 5: here},
		"ranks 0, 2, 4-5 wait; rank 3 is furthest behind; rank 3 is in barrier #15, waits to send to rank 0, " +
			"waits to receive from rank any, last completed #14": {0: here, 1: before, 3: busy, 4: here, 5: here},
	} {
		r := Explain(o, Snapshot{Seq: 17 * at, Call: ours}, got)
		require.Contains(t, r.Line, says)
		want := colligo.ErrTimeout
		if strings.HasPrefix(says, "after") {
			want = colligo.ErrMismatch
			require.Nil(t, r.Suspects, "it may be either")
		}
		require.Equal(t, want, r.Class)
	}
}

// TestPairLine makes the line about a late send or receive of what peers answer.
func TestPairLine(t *testing.T) {
	idle, any := Snapshot{Done: 3 * at, Number: 3}, Snapshot{Recvs: []int{AnyPeer}}
	from := func(peer int) Snapshot { return Snapshot{Recvs: []int{peer}} }
	for says, c := range map[string]struct {
		o   Operation
		got Snapshots
	}{
		"nothing from rank 1 with tag 7 after 2s; a message has come; rank 1 has nothing pending, last completed #3": {
			Operation{Coll: plan.Recv, Peer: 1, Unexpected: []string{"a message has come"}}, Snapshots{1: idle, 2: idle}},
		"nothing from rank any with tag 7 after 2s; rank 2 does not answer": {Operation{Coll: plan.Recv, Peer: AnyPeer}, Snapshots{1: idle}},
		"rank 1 has not taken the message with tag 7 after 2s; ranks 1-2 do not answer": {
			Operation{Coll: plan.Send, Peer: 1}, nil},
		"rank 1 has not taken the message with tag 7 after 2s; rank 1 waits to receive from rank 2; rank 2 waits to receive from rank 1": {
			Operation{Coll: plan.Send, Peer: 1}, Snapshots{1: from(2), 2: from(1)}},
		"rank 1 has not taken the message with tag 7 after 2s; rank 1 waits to receive from rank any": {
			Operation{Coll: plan.Send, Peer: 1}, Snapshots{1: any, 2: idle}},
		"rank 1 has not taken the message with tag 7 after 2s; rank 1 waits to receive from rank 9": { // which does not exist
			Operation{Coll: plan.Send, Peer: 1}, Snapshots{1: from(9), 2: idle}},
	} {
		c.o.Size, c.o.Tag, c.o.After = 3, 7, "2s"
		r := Explain(&c.o, Snapshot{}, c.got)
		require.Equal(t, says, r.Line)
		require.Equal(t, colligo.ErrTimeout, r.Class)
	}
}

// TestDifferences compares fingerprints.
func TestDifferences(t *testing.T) {
	sum := Fingerprint{Coll: "all_reduce", Op: "sum", Tensors: 1, DType: "float32", Device: "cpu", Shape: "[2 3]"}
	change := func(f func(f *Fingerprint)) *Fingerprint {
		other := sum
		f(&other)
		return &other
	}
	for says, ranks := range map[string][]*Fingerprint{
		"": {&sum, &sum, &sum},
		"ranks differ in shape: ranks 0, 2 [2 3], rank 1 none":      {&sum, change(func(f *Fingerprint) { f.Shape = "" }), &sum},
		"ranks differ in reduction: rank 0 max, ranks 1-2 sum":      {change(func(f *Fingerprint) { f.Op = "max" }), &sum, &sum},
		"ranks differ in root: ranks 0-1 0, rank 2 1":               {&sum, &sum, change(func(f *Fingerprint) { f.Root = 1 })},
		"ranks differ in collective: rank 0 all_reduce, rank 1 sum": {&sum, change(func(f *Fingerprint) { f.Coll, f.Op, f.Root = "sum", "", 1 })},
		"ranks differ in element type: rank 0 float32, rank 1 int8; device: rank 0 cpu, rank 1 cuda": {
			&sum, change(func(f *Fingerprint) { f.DType, f.Device = "int8", "cuda" })},
	} {
		require.Equal(t, says, Differences(ranks))
	}
}
