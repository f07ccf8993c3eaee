package flight

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// live is the bytes that the heap holds.
func live() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestClosedGroups makes, uses and closes many groups beside one that stays open: the recorder and its dumps do not grow.
func TestClosedGroups(t *testing.T) {
	const capacity, groups = 100, 200_000
	r := New(capacity, 0)
	always := r.AddGroup("0", "default_pg", []int{0, 1})
	var before uint64
	for i := range groups {
		if i == groups/100 {
			before = live()
		}
		n := r.AddGroup(fmt.Sprint("sub", i), "", []int{0, 1, 2, 3, 4, 5, 6, 7})
		require.Equal(t, i+1, n)
		id := r.Add(&Op{PG: n, Seq: 1, Name: "nccl:barrier"}, 0)
		r.Complete(id, 0)
		r.CloseGroup(n)
		if i%1000 == 0 {
			r.CloseGroup(n)
			r.CloseGroup(-1)
			r.CloseGroup(groups * 2)
			r.Add(&Op{PG: always, Seq: uint64(i/1000 + 1), Name: "nccl:barrier"}, 0)
		}
	}
	require.Less(t, live(), before+256<<10)
	d := r.Dump(all)
	require.LessOrEqual(t, len(d.Groups), 1+2*(capacity+1))
	require.Equal(t, Status{200, -1, -1}, d.Status["0"])
	require.Len(t, d.Entries, capacity)
	for i, e := range d.Entries {
		require.Equal(t, fmt.Sprint("sub", groups-capacity+i), e.Group)
		require.Contains(t, d.Groups, e.Group)
		require.Equal(t, Status{1, 1, 1}, d.Status[fmt.Sprint(e.PG)])
	}
	r.Complete(r.Add(&Op{PG: 7, Seq: 9, Name: "nccl:barrier"}, 0), 0) // of a group that is forgotten
	require.NotContains(t, r.Dump(all).Status, "7")
	(*Recorder)(nil).CloseGroup(0)
}

// TestUnusedGroups forgets closed groups without operations, but for a few.
func TestUnusedGroups(t *testing.T) {
	r := New(10, 0)
	for range 1000 {
		r.CloseGroup(r.AddGroup("sub", "", nil))
	}
	open := r.AddGroup("open", "", nil)
	require.LessOrEqual(t, len(r.Dump(all).Status), fewClosed+2)
	require.Contains(t, r.Dump(all).Status, fmt.Sprint(open))
}

// TestOpenGroups has the recorder know very many open groups. A list that is copied for each would be 160 GB of copies.
func TestOpenGroups(t *testing.T) {
	const groups = 200_000
	r := New(10, 0)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	for range groups {
		r.AddGroup("sub", "", nil)
	}
	for i := range groups {
		require.NotNil(t, r.group(i))
		r.CloseGroup(i)
	}
	require.Less(t, time.Since(began), time.Minute)
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(16<<30), "of this process, other tests included")
	require.LessOrEqual(t, len(r.Dump(all).Status), fewClosed+1)
}

// TestGroupsTogether makes and closes groups from many goroutines, beside operations and dumps.
func TestGroupsTogether(t *testing.T) {
	r := New(50, 0)
	var together sync.WaitGroup
	for range 8 {
		together.Go(func() {
			for i := range 2000 {
				n := r.AddGroup("sub", "", []int{i})
				id := r.Add(&Op{PG: n, Seq: 1, Name: "nccl:barrier"}, 0)
				r.Start(id)
				r.Complete(id, 0)
				r.CloseGroup(n)
				if i%200 == 0 {
					r.Dump(all)
				}
			}
		})
	}
	together.Wait()
	d := r.Dump(all)
	for _, e := range d.Entries {
		require.Equal(t, "sub", e.Group)
		require.Equal(t, Status{1, 1, 1}, d.Status[fmt.Sprint(e.PG)])
	}
}
