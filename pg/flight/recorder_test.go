package flight

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
)

var (
	matrix = colligo.Of(make([]float32, 6), 2, 3)
	vector = colligo.Of(make([]int64, 4))
)

// all asks for everything.
var all = DumpOptions{Entries: true, Frames: true}

func TestStates(t *testing.T) {
	r := New(10, 4)
	require.Equal(t, 0, r.AddGroup("0", "default_pg", []int{0, 1}))
	require.Equal(t, 1, r.AddGroup("1", "", []int{1}))
	before := time.Now().UnixNano()
	op := Op{Seq: 1, OpID: 1, Name: "nccl:all_reduce", In: []colligo.Tensor{matrix}, Out: []colligo.Tensor{vector, matrix}, Timeout: time.Minute}
	ids := make([]ID, 4)
	for i := range ids {
		ids[i] = r.Add(&op, 0)
		op.Seq++
	}
	op.PG, op.P2P, op.Seq, op.P2PSeq, op.Name = 1, true, 0, 1, "nccl:send 0->1"
	pair := r.Add(&op, 0)
	r.Start(pair)
	r.Complete(pair, time.Millisecond)
	r.Start(ids[0])
	r.Complete(ids[0], 5*time.Millisecond)
	r.Start(ids[1])
	r.Start(ids[2])
	r.Retire(ids[2])

	d := r.Dump(all)
	require.Equal(t, "2.10", d.Version)
	require.Equal(t, map[string]Group{"0": {"0", "default_pg", []int{0, 1}}, "1": {"1", "", []int{1}}}, d.Groups)
	require.Equal(t, map[string]Status{"0": {4, 3, 1}, "1": {-1, -1, -1}}, d.Status, "sends and receives do not count")
	require.Len(t, d.Entries, 5)
	for i, want := range []struct {
		state   State
		retired bool
		took    time.Duration
	}{{Completed, true, 5 * time.Millisecond}, {Started, false, -1}, {Started, true, -1}, {Scheduled, false, -1}, {Completed, true, time.Millisecond}} {
		e := d.Entries[i]
		require.Equal(t, int64(i), e.ID)
		require.Equal(t, want.state, e.State, i)
		require.Equal(t, want.retired, e.Retired, i)
		require.Equal(t, want.took, e.Duration, i)
		require.Equal(t, want.state == Completed, e.DiscoveredCompleted >= before, i)
		require.Equal(t, want.state >= Started, e.DiscoveredStarted >= before, i)
		require.GreaterOrEqual(t, e.Created, before)
		require.Equal(t, [][]int64{{2, 3}}, e.InSizes)
		require.Equal(t, [][]int64{{4}, {2, 3}}, e.OutSizes)
		require.Equal(t, []string{"Float"}, e.InTypes)
		require.Equal(t, []string{"Long", "Float"}, e.OutTypes)
		require.Equal(t, time.Minute, e.Timeout)
		require.Contains(t, e.Frames[0].Name, "TestStates")
		require.True(t, strings.HasSuffix(e.Frames[0].File, "recorder_test.go"))
		require.Positive(t, e.Frames[0].Line)
		require.LessOrEqual(t, len(e.Frames), 4)
	}
	require.Equal(t, "default_pg", d.Entries[0].Desc)
	require.Equal(t, "1", d.Entries[4].Group)
	require.Len(t, r.Dump(DumpOptions{Entries: true, OnlyActive: true}).Entries, 3)
	require.Nil(t, r.Dump(DumpOptions{}).Entries)
	require.Nil(t, r.Dump(DumpOptions{Entries: true}).Entries[0].Frames)
}

// TestRing: an operation whose slot another has taken is gone, also for what is said of it later.
// TestStartedAtOnce records operations that are on their way as they are called.
func TestStartedAtOnce(t *testing.T) {
	r := New(2, 0)
	r.AddGroup("0", "", []int{0})
	called := time.Now().Add(-time.Hour)
	add := func(seq uint64, started bool) ID {
		return r.Add(&Op{Seq: seq, OpID: seq, Started: started, Created: called.UnixNano()}, 0)
	}
	first := add(1, true)
	add(2, false)
	d := r.Dump(all)
	require.Equal(t, map[string]Status{"0": {2, 1, -1}}, d.Status)
	require.Equal(t, Started, d.Entries[0].State)
	require.Equal(t, called.UnixNano(), d.Entries[0].DiscoveredStarted)
	require.Equal(t, Scheduled, d.Entries[1].State)
	require.Zero(t, d.Entries[1].DiscoveredStarted)
	r.EndAt(0, first, 1, time.Second, time.Now().UnixNano())
	d = r.Dump(all)
	require.Equal(t, map[string]Status{"0": {2, 1, 1}}, d.Status)
	require.Equal(t, Completed, d.Entries[0].State)
	require.Equal(t, called.UnixNano(), d.Entries[0].DiscoveredStarted)
	add(3, false) // takes the slot of the first
	d = r.Dump(all)
	require.Equal(t, []State{Scheduled, Scheduled}, []State{d.Entries[0].State, d.Entries[1].State})
	require.Zero(t, d.Entries[1].DiscoveredStarted)
}

func TestRing(t *testing.T) {
	r := New(3, 0)
	var ids []ID
	for i := range 8 {
		ids = append(ids, r.Add(&Op{Seq: uint64(i + 1), Name: "nccl:barrier"}, 0))
	}
	r.Start(ids[1])
	r.Complete(ids[4], 0)
	r.Complete(ids[6], 0)
	r.Retire(ids[0])
	d := r.Dump(all)
	require.Equal(t, []string{"5 6 scheduled false", "6 7 completed true", "7 8 scheduled false"}, lines(d))
}

// TestConclude ends operations together. Operations whose slots are written over, and failed ones, do not count as done.
func TestConclude(t *testing.T) {
	r := New(4, 0)
	require.Equal(t, 0, r.AddGroup("0", "", []int{0}))
	var all []Done
	for i := range uint64(6) {
		all = append(all, Done{ID: r.Add(&Op{Seq: i + 1, P2P: i == 5, Name: "nccl:barrier"}, 0), Seq: i + 1})
	}
	all[4].Failed, all[5].Seq = true, 0
	at := time.Now()
	r.Conclude(0, append(all[:3:3], Done{ID: -1, Seq: 9}, all[4], all[5]), at)
	r.Conclude(7, nil, at)
	(*Recorder)(nil).Conclude(0, all, at)
	d := r.Dump(DumpOptions{Entries: true})
	require.Equal(t, []string{"2 3 completed true", "3 4 scheduled false", "4 5 scheduled true", "5 6 completed true"}, lines(d))
	require.Equal(t, at.UnixNano(), d.Entries[0].DiscoveredCompleted)
	require.Negative(t, d.Entries[0].Duration)
	require.Equal(t, Status{5, 3, 3}, d.Status["0"])
}

func lines(d *Dump) []string {
	var all []string
	for _, e := range d.Entries {
		all = append(all, fmt.Sprint(e.ID, " ", e.Seq, " ", e.State, " ", e.Retired))
	}
	return all
}

func TestNoRecorder(t *testing.T) {
	for _, r := range []*Recorder{New(0, 8), New(-1, 8), nil} {
		require.Nil(t, r)
		require.Zero(t, r.AddGroup("0", "", nil))
		id := r.Add(&Op{}, 0)
		require.Negative(t, id)
		r.Start(id)
		r.Complete(id, 0)
		r.Retire(id)
		require.Equal(t, &Dump{Version: "2.10", Library: "colligo", Groups: map[string]Group{}, Status: map[string]Status{}, Entries: []Entry{}}, r.Dump(all))
	}
	r := New(1, 1)
	r.Start(-1)
	r.Complete(7, 0)
	r.Add(&Op{PG: 5, Seq: 1, Name: "nccl:barrier"}, 100)
	e := r.Dump(all).Entries[0]
	require.Empty(t, e.Group)
	require.Empty(t, e.Frames)
}

func outer(r *Recorder, skip int) ID { return inner(r, skip) }

func inner(r *Recorder, skip int) ID { return r.Add(&Op{}, skip) }

func TestSkippedCallers(t *testing.T) {
	r := New(10, 2)
	for skip, want := range []string{".inner", ".outer", ".TestSkippedCallers"} {
		outer(r, skip)
		e := r.Dump(all).Entries[skip]
		require.True(t, strings.HasSuffix(e.Frames[0].Name, want), "%v", e.Frames)
		require.LessOrEqual(t, len(e.Frames), 3)
	}
}

// TestLines holds what slot says of itself, for tensors of one dimension.
func TestLines(t *testing.T) {
	const line = 64
	require.Zero(t, unsafe.Sizeof(slot{})%line)
	require.LessOrEqual(t, unsafe.Offsetof(slot{}.sizes)+2*8, uintptr(2*line))
}

// TestNoMemory holds invariant 1, from the first operation on for shapes that most have.
func TestNoMemory(t *testing.T) {
	r := New(100, DefaultDepth)
	r.AddGroup("0", "", nil)
	op := Op{Name: "nccl:all_reduce", In: []colligo.Tensor{matrix, vector}, Out: []colligo.Tensor{matrix, vector}}
	record := func() {
		id := r.Add(&op, 0)
		r.Start(id)
		r.Complete(id, time.Second)
	}
	require.Zero(t, testing.AllocsPerRun(1000, record))
	for range 10 {
		op.In = append(op.In, matrix)
	}
	for range 100 {
		record()
	}
	require.Zero(t, testing.AllocsPerRun(1000, record), "every slot has been used")
}

// TestTogether records from many goroutines and dumps beside them: every entry is whole.
func TestTogether(t *testing.T) {
	const goroutines, each = 8, 2000
	r := New(64, 3)
	r.AddGroup("0", "", nil)
	var together sync.WaitGroup
	for i := range goroutines {
		together.Go(func() {
			tensors := make([]colligo.Tensor, i)
			for j := range tensors {
				tensors[j] = vector
			}
			for n := range each {
				seq := uint64(n*goroutines + i)
				id := r.Add(&Op{Seq: seq, OpID: seq, Timeout: time.Duration(seq), Name: "nccl:broadcast", In: tensors}, 0)
				// The last goroutine tells the number, as groups do. The others may find their entry overwritten, if they are held up.
				if i == goroutines-1 {
					r.BeginAt(0, id, seq, time.Now().UnixNano())
				} else {
					r.Start(id)
				}
				switch {
				case n%2 != 0:
					r.Retire(id)
				case i == goroutines-1:
					r.EndAt(0, id, seq, time.Duration(seq), time.Now().UnixNano())
				default:
					r.Complete(id, time.Duration(seq))
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { together.Wait(); close(done) }()
	for ended := false; !ended; {
		select {
		case <-done:
			ended = true
		default:
		}
		last := int64(-1)
		for _, e := range r.Dump(all).Entries {
			require.Greater(t, e.ID, last)
			last = e.ID
			require.Equal(t, e.Seq, e.OpID)
			require.Len(t, e.InSizes, int(e.Seq%goroutines))
			require.Equal(t, time.Duration(e.Seq), e.Timeout)
			if e.State == Completed {
				require.Equal(t, e.Timeout, e.Duration)
			}
		}
	}
	require.Equal(t, Status{goroutines*each - 1, goroutines*each - 1, (each-2)*goroutines + goroutines - 1}, r.Dump(DumpOptions{}).Status["0"])
}

func TestTypeNames(t *testing.T) {
	for _, d := range colligo.DTypes() {
		require.NotEqual(t, d.String(), typeName(d))
	}
	require.Equal(t, "Float8_e4m3fn", typeName(colligo.Float8E4M3FN))
	require.Equal(t, "dtype(0)", typeName(0))
}

// BenchmarkRecord is one operation from its call to its end.
func BenchmarkRecord(b *testing.B) {
	for _, depth := range []int{0, 4, DefaultDepth, 16} {
		b.Run(fmt.Sprintf("callers=%d", depth), func(b *testing.B) {
			r := New(DefaultCapacity, depth)
			r.AddGroup("0", "", nil)
			op := Op{Name: "nccl:all_reduce", In: []colligo.Tensor{matrix}, Out: []colligo.Tensor{matrix}}
			b.ReportAllocs()
			deep(12, func() {
				for b.Loop() {
					id := r.Add(&op, 0)
					r.Start(id)
					r.Complete(id, time.Second)
				}
			})
		})
	}
}

//go:noinline
func deep(n int, f func()) {
	if n > 0 {
		deep(n-1, f)
		return
	}
	f()
}

func BenchmarkDump(b *testing.B) {
	r := New(DefaultCapacity, DefaultDepth)
	for range DefaultCapacity {
		r.Add(&Op{Name: "nccl:all_reduce", In: []colligo.Tensor{matrix}, Out: []colligo.Tensor{matrix}}, 0)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := r.Dump(all).WritePickle(&strings.Builder{}); err != nil {
			b.Fatal(err)
		}
	}
}
