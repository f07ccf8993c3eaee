package host

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/internal/op"
	"github.com/colligo-go/colligo/pg/tuning"
	"github.com/colligo-go/colligo/plan"
	"github.com/colligo-go/colligo/transport"
	"github.com/colligo-go/colligo/transport/shm"
	"github.com/colligo-go/colligo/transport/tcp"
	"github.com/colligo-go/colligo/transport/transporttest"
)

// opener opens the meshes of a medium.
type opener = func(context.Context, *transport.Config) (transport.Mesh, error)

// media are those that lend a lane.
var media = map[string]opener{"tcp": tcp.Open, "shm": shm.Open}

// rank is one of a group, and the group of its backend. It fails with the first error.
type rank struct {
	listener
	b   *Backend
	mu  sync.Mutex
	err error
}

func (r *rank) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

func (r *rank) Fail(err error, at op.Seq) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return false
	}
	r.err = err
	return r.b.Abort(at, true)
}

func (r *rank) Late(o *op.Op) { r.Fail(colligo.ErrTimeout, o.Seq) }

func (r *rank) End(o *op.Op, _ *plan.Plan, err error) { o.Err, o.Over = err, true }

// openRanks opens a group whose hosts have cores to spare, or not.
func openRanks(t *testing.T, open opener, size int, table []tuning.Rule, spare bool) []*rank {
	t.Helper()
	all := make([]*rank, size)
	for i, mesh := range transporttest.Open(t, size, open, nil) {
		r := &rank{listener: listener{t: t}}
		r.b = New(Config{ID: 1, Name: "0", Rank: i, Size: size, Tuning: table, Group: r})
		r.b.Use(mesh, tuning.Place{Medium: mesh.String(), Size: size, Spare: spare})
		require.Equal(t, spare, r.b.worker != nil)
		all[i] = r
	}
	return all
}

// call carries out an operation on the goroutine of its caller.
func (r *rank) call(o *op.Op) error {
	o.Size, o.Rank, o.AtOnce = int32(r.b.Size), int32(r.b.Rank), r.b.Claim()
	r.b.Finish(o, r.b.Enqueue(o))
	return o.Err
}

// twoLanes has every collective of two lanes.
func twoLanes(t *testing.T) []tuning.Rule {
	var table []tuning.Rule
	for _, r := range tuning.Default() {
		if r.Cores == tuning.Spare && r.Medium == "tcp" && r.MaxSize > 2 {
			table = append(table, tuning.Rule{Coll: r.Coll, Algo: r.Algo, Lanes: r.Lanes, ChunkBytes: r.ChunkBytes})
		}
	}
	require.GreaterOrEqual(t, len(table), 6)
	return table
}

// zeroCopying has the same, where there is such an algorithm with payloads that stay in the sender's memory.
func zeroCopying(t *testing.T) []tuning.Rule {
	table := twoLanes(t)
	for i, r := range table {
		if algo := r.Algo + "_zero_copy"; slices.Contains(tuning.Algorithms(r.Coll), algo) {
			table[i].Algo = algo
		}
	}
	return table
}

// results has a group call every collective of two lanes with lengths around those from which a second goroutine takes part. It returns
// all outputs, by rank.
func results(t *testing.T, open opener, size int, table []tuning.Rule, spare bool) [][][]float32 {
	t.Helper()
	ranks := openRanks(t, open, size, table, spare)
	outs := make([][][]float32, size)
	var all sync.WaitGroup
	for _, r := range ranks {
		all.Go(func() {
			seq := op.Seq(0)
			for _, c := range []plan.Coll{plan.AllReduce, plan.Broadcast, plan.Reduce, plan.AllGather, plan.ReduceScatter, plan.AllToAll} {
				for _, count := range []int{1, 1001, workerBytes/4 - 1, workerBytes / 4, workerBytes/4 + 1, 400_003} {
					seq = seq.Next(true)
					o, out := collectiveOn(r.b, c, count)
					o.Seq, o.Limit = seq, time.Minute
					if err := r.call(o); err != nil {
						t.Errorf("%v of %d on rank %d: %v", c, count, r.b.Rank, err)
						return
					}
					outs[r.b.Rank] = append(outs[r.b.Rank], out)
					if w := r.b.worker; w != nil && (w.started || !w.engine.Done()) {
						t.Errorf("%v of %d on rank %d: the goroutine is left", c, count, r.b.Rank)
					}
				}
			}
		})
	}
	all.Wait()
	return outs
}

// collectiveOn makes a call of so many elements of a rank, and its output.
func collectiveOn(b *Backend, c plan.Coll, count int) (*op.Op, []float32) {
	in, out := count, count
	switch c {
	case plan.AllGather:
		out *= b.Size
	case plan.ReduceScatter:
		in *= b.Size
	case plan.AllToAll:
		in, out = in*b.Size, out*b.Size
	}
	src, dst := make([]float32, in), make([]float32, out)
	for i := range src {
		src[i] = float32((i*7 + b.Rank*1009 + count) % 4093)
	}
	o := &op.Op{Coll: c, In: colligo.Of(src), Out: colligo.Of(dst), Count: count, DType: colligo.Float32, Root: int32(b.Size - 1)}
	return o, dst
}

// TestWorker compares the results of two groups. In one, each rank's worker carries out the second lane. The ranks of the other have no worker.
func TestWorker(t *testing.T) {
	want := results(t, tcp.Open, 3, twoLanes(t), false)
	for name, open := range media {
		t.Run(name, func(t *testing.T) { sameResults(t, want, results(t, open, 3, twoLanes(t), true)) })
	}
	t.Run("shm, zero copy", func(t *testing.T) { sameResults(t, want, results(t, shm.Open, 3, zeroCopying(t), true)) })
}

// sameResults compares outputs by rank. Package require takes half a minute for them under the race detector.
func sameResults(t *testing.T, want, got [][][]float32) {
	t.Helper()
	for rank := range want {
		require.Len(t, got[rank], len(want[rank]), "rank %d", rank)
		for call := range want[rank] {
			require.True(t, slices.Equal(want[rank][call], got[rank][call]), "call %d of rank %d", call, rank)
		}
	}
}

// begun begins an all_reduce of two goroutines on all ranks but the last, and returns when both goroutines of each wait for that rank.
func begun(t *testing.T, ctx context.Context, open opener, table []tuning.Rule) (ranks []*rank, outs [][]float32, over *sync.WaitGroup) {
	t.Helper()
	const size = 3
	over, outs = &sync.WaitGroup{}, make([][]float32, size)
	ranks = openRanks(t, open, size, table, true)
	for i, r := range ranks[:size-1] {
		o, out := collectiveOn(r.b, plan.AllReduce, 1<<20)
		o.Seq, o.Limit, o.Ctx, outs[i] = op.Seq(0).Next(true), time.Minute, ctx, out
		over.Go(func() {
			if err := r.call(o); err == nil {
				t.Errorf("rank %d: no error", i)
			}
			clear(out) // it is the caller's again: the race detector hears of a goroutine that goes on
		})
	}
	for _, r := range ranks[:size-1] {
		asked := make(chan Standing, 1)
		require.Eventually(t, func() bool { return r.b.Inquire(func(s Standing) { asked <- s }) }, 10*time.Second, time.Millisecond)
		r.b.mesh.Wake()
		s := <-asked
		require.NotZero(t, s.Moved)
	}
	return ranks, outs, over
}

// TestWorkerEnds ends calls whose two goroutines wait for a rank that does not come. The caller's context ends, the rank is gone, or the
// links are closed. Links over shared memory must not be closed during a call, so TCP alone has that case. After each end the memory is the
// caller's.
func TestWorkerEnds(t *testing.T) {
	for medium, open := range media {
		t.Run(medium, func(t *testing.T) { workerEnds(t, open, twoLanes(t), medium == "shm") })
	}
	t.Run("shm, zero copy", func(t *testing.T) {
		workerEnds(t, shm.Open, zeroCopying(t), true)
	})
}

func workerEnds(t *testing.T, open opener, table []tuning.Rule, shared bool) {
	for name, end := range map[string]func(cancel func(), ranks []*rank){
		"cancelled": func(cancel func(), _ []*rank) { cancel() },
		"closed":    func(_ func(), ranks []*rank) { closeMesh(ranks[0]); closeMesh(ranks[1]) },
		"gone": func(_ func(), ranks []*rank) {
			closeMesh(ranks[2]) // on which rank 0 waits; rank 1 waits on that, and would be told
			ranks[1].Fail(colligo.ErrPeerLost, op.Seq(0).Next(true))
			ranks[1].b.mesh.Wake()
		},
	} {
		if shared && name == "closed" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			before := runtime.NumGoroutine()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ranks, outs, over := begun(t, ctx, open, table)
			end(cancel, ranks)
			over.Wait()
			for i := range outs[:2] {
				require.False(t, ranks[i].b.worker.started)
				require.Equal(t, make([]float32, 1<<20), outs[i])
			}
			for _, r := range ranks {
				closeMesh(r)
			}
			for late := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
				require.True(t, time.Now().Before(late), "%d goroutines, %d before", runtime.NumGoroutine(), before)
			}
		})
	}
}

func closeMesh(r *rank) { r.b.mesh.(transport.Mesh).Close() }
