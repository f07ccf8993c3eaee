package parity

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/cudasim"
	"github.com/colligo-go/colligo/cuda/nccl"
	"github.com/colligo-go/colligo/cuda/nccl/ncclsim"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/store"
	"github.com/colligo-go/colligo/transport"
	"github.com/colligo-go/colligo/transport/sim"
)

// job is a group whose ranks have a process each, on a simulated network. Where they have devices, these are of one simulated machine.
// A process can be killed.
type job struct {
	size      int
	medium    string // "cpu"; "peer", "staged" or "nccl" on simulated devices; "gpu", "gpu staged" or "gpu nccl" on real ones
	net       *sim.Net
	store     store.Store
	died      []atomic.Bool                    // by rank; its process asks the store for nothing then
	machine   *cudasim.Sim                     // nil on the CPU
	processes []*cudasim.Process               // by rank, nil on the CPU and on real devices
	library   *ncclsim.Sim                     // of medium nccl
	gpus      *cuda.Driver                     // of all ranks, where the devices are real
	asks      func(rank int, key string) error // hears which keys of the store a rank is about to set or to get, and may refuse; if it is not nil
}

// mortal is one rank of a job.
type mortal struct {
	*rank
	job  *job
	dead bool
}

// jobOf runs f on the ranks of a job until all have returned.
func jobOf(t *testing.T, medium string, size int, f func(m *mortal)) {
	newJob(t, medium, size).run(t, f)
}

func newJob(t *testing.T, medium string, size int) *job {
	j := &job{size: size, medium: medium, net: sim.New(sim.Config{Size: size}), store: store.NewHash(), died: make([]atomic.Bool, size)}
	switch medium {
	case "cpu":
	case "gpu", "gpu staged", "gpu nccl":
		var err error
		j.gpus, err = cuda.Open()
		require.NoError(t, err)
	default:
		j.machine = machineOf(t, size)
		for range size {
			j.processes = append(j.processes, j.machine.Process())
		}
		if medium == "nccl" {
			j.library = ncclsim.New(nil, ncclsim.Version)
			t.Cleanup(func() { require.NoError(t, j.library.Close()) })
		}
	}
	return j
}

// deviceMedia are the media of a job with tensors on devices: simulated ones, or real ones where COLLIGO_GPU is set. More than two ranks share
// no real device, for their streams in several groups can be more than a device has hardware queues. NCCL takes no two ranks of a process on one
// device.
func deviceMedia(t *testing.T, ranks int) []string {
	if os.Getenv("COLLIGO_GPU") == "" {
		return []string{"peer", "staged", "nccl"}
	}
	d, err := cuda.Open()
	require.NoError(t, err)
	devices, err := d.Devices()
	require.NoError(t, err)
	switch {
	case devices >= ranks:
		return []string{"gpu", "gpu staged", "gpu nccl"}
	case ranks <= 2:
		return []string{"gpu", "gpu staged"}
	}
	t.Skipf("%d real devices are too few for %d ranks", devices, ranks)
	return nil
}

// run runs f on the ranks until all have returned.
func (j *job) run(t *testing.T, f func(m *mortal)) {
	var ranks sync.WaitGroup
	for i := range j.size {
		ranks.Go(func() { j.live(t, i, f) })
	}
	ranks.Wait()
}

// live is the life of one rank's process.
func (j *job) live(t *testing.T, i int, f func(m *mortal)) {
	c := pg.Config{Store: j.store, Size: j.size, Rank: i, Timeout: 2 * time.Minute, ConnectTimeout: 2 * time.Minute,
		Recorder: pg.RecorderOptions{DumpOnError: pg.Off}}
	if strings.HasSuffix(j.medium, "nccl") {
		c.Backends = overNCCL
	}
	c.Store = asked{j.store, func(key string) error {
		if j.died[i].Load() {
			return errDied
		}
		if j.asks != nil {
			return j.asks(i, key)
		}
		return nil
	}}
	c.Open = func(ctx context.Context, tc *transport.Config) (transport.Mesh, error) {
		return j.net.OpenAs(ctx, i, tc)
	}
	g, err := pg.Init(t.Context(), c)
	if err != nil {
		t.Errorf("rank %d: %v", i, err)
		return
	}
	m := &mortal{rank: &rank{Group: g, t: t, ctx: t.Context()}, job: j}
	defer func() {
		if err := g.CloseAll(); err != nil && !m.dead && !errors.Is(err, g.Err()) {
			t.Errorf("rank %d: close: %v", i, err)
		}
	}()
	if j.medium == "cpu" {
		f(m)
		return
	}
	d, devices := j.gpus, j.size
	if d == nil {
		d = j.processes[i].Driver()
	} else if devices, err = d.Devices(); err != nil {
		t.Error(err)
		return
	}
	m.rank = rankOn(t, g, d, devices, 0)
	m.ctx = j.on(m.rank, d)
	defer func() {
		if !m.dead {
			_ = m.Close() // CloseAll tells the error
			m.free()
		}
	}()
	f(m)
}

// asked is a store that asks before a key is set or got.
type asked struct {
	store.Store
	asks func(key string) error
}

// Set implements store.Store.
func (s asked) Set(ctx context.Context, key string, value []byte) error {
	if err := s.asks(key); err != nil {
		return err
	}
	return s.Store.Set(ctx, key, value)
}

// Get implements store.Store.
func (s asked) Get(ctx context.Context, key string) ([]byte, error) {
	if err := s.asks(key); err != nil {
		return nil, err
	}
	return s.Store.Get(ctx, key)
}

// on has a rank's operations carried out by the job's medium.
func (j *job) on(r *rank, d *cuda.Driver) context.Context {
	switch j.medium {
	case "nccl":
		l, err := j.library.LibraryOf(d)
		require.NoError(r.t, err)
		return nccl.With(r.ctx, nccl.Options{Driver: d, Library: l})
	case "gpu nccl":
		return nccl.With(r.ctx, nccl.Options{Driver: d})
	case "staged", "gpu staged":
		return ways["staged"](r)
	}
	return r.ctx
}

// errDied is what the store says to a process that was killed, which the other ranks do not see.
var errDied = errors.New("the process was killed")

// die kills the rank's process: first its store and its network, for the dead tell nobody that those and their driver fail.
func (m *mortal) die(id int) {
	m.dead = true
	m.job.died[id].Store(true)
	m.job.net.Kill(id)
	if m.gpu == nil {
		return
	}
	if m.job.library != nil {
		m.job.library.Kill(m.driver)
	}
	m.job.processes[id].Kill()
}

// meets returns when all ranks of a job that are left have come to a point.
func (m *mortal) meets(at string, id int, all []int) {
	require.NoError(m.t, m.job.store.Set(m.t.Context(), fmt.Sprint(at, id), nil))
	keys := make([]string, len(all))
	for i, r := range all {
		keys[i] = fmt.Sprint(at, r)
	}
	require.NoError(m.t, m.job.store.Wait(m.t.Context(), keys...))
}

// deaths are what a rank of a group is in when its process is killed. Each returns the error of a rank that lives, and does not return
// on a rank that dies.
var deaths = map[string]func(m *mortal, dies func()) error{
	// the others have called a collective that it has not
	"awaited": func(m *mortal, dies func()) error {
		if dies != nil {
			time.Sleep(100 * time.Millisecond)
			dies()
			return nil
		}
		return m.until()
	},
	// it has called a collective, too
	"called": func(m *mortal, dies func()) error {
		w := m.AllReduceAsync(m.ctx, full(m.rank, 300_000, float32(1)), colligo.Sum)
		if dies != nil {
			dies()
			return nil
		}
		if err := w.Synchronize(context.Background()); err != nil {
			return err
		}
		return m.until()
	},
	// no rank is in an operation, and some time later the others call one
	"idle": func(m *mortal, dies func()) error {
		if dies != nil {
			dies()
			return nil
		}
		time.Sleep(time.Second)
		return m.until()
	},
}

// until sums until that fails.
func (r *rank) until() error {
	x := full(r, 1000, float32(0))
	for {
		if err := r.AllReduceAsync(r.ctx, x, colligo.Sum).Synchronize(context.Background()); err != nil {
			return err
		}
	}
}

// works asserts the results of operations of each kind, on the rank's medium. Ids has the rank's numbers in the job by rank in the group.
func (r *rank) works(ids []int) {
	me, n := r.Rank(), r.Size()
	require.Equal(r.t, len(ids), n)
	sum := float32(0)
	for _, id := range ids {
		sum += float32(id + 1)
	}
	mine := func(count int) colligo.Tensor { return full(r, count, float32(ids[me]+1)) }
	for _, count := range []int{1, 1000, 100_000} {
		x := mine(count)
		require.NoError(r.t, r.AllReduce(r.ctx, x, colligo.Sum))
		equal(r.t, repeat(count, sum), values[float32](r, x))
		x = mine(count)
		require.NoError(r.t, r.AllReduceAsync(r.ctx, x, colligo.Sum).Wait(r.ctx))
		equal(r.t, repeat(count, sum), values[float32](r, x))
	}
	all := full(r, 10*n, float32(0))
	require.NoError(r.t, r.AllGatherIntoTensor(r.ctx, all, mine(10)))
	var want []float32
	for _, id := range ids {
		want = append(want, repeat(10, float32(id+1))...)
	}
	require.Equal(r.t, want, values[float32](r, all))
	x := mine(500)
	require.NoError(r.t, r.Broadcast(r.ctx, x, n-1))
	require.Equal(r.t, repeat(500, float32(ids[n-1]+1)), values[float32](r, x))
	x = full(r, 70, float32(0))
	require.NoError(r.t, r.Coalesce(r.ctx, func(b *pg.Batch) error {
		b.Send(mine(70), (me+1)%n, 0)
		b.Recv(x, (me+n-1)%n, 0)
		return nil
	}))
	require.Equal(r.t, repeat(70, float32(ids[(me+n-1)%n]+1)), values[float32](r, x))
}

// TestRegroupAfterKill kills processes of a group whose tensors lie on devices, or on the CPU. Their peers hear of it soon, regroup, and
// their operations' results are right. They lose another one and go on once more.
func TestRegroupAfterKill(t *testing.T) {
	beside(t)
	for _, medium := range []string{"cpu", "peer", "staged", "nccl"} {
		for when, death := range deaths {
			for _, victims := range [][][]int{{{1}, {0}}, {{0}, {3}}, {{1, 2}}} { // those that die at once, and later
				t.Run(fmt.Sprintf("medium=%s/when=%s/victims=%v", medium, when, victims), func(t *testing.T) {
					beside(t)
					jobOf(t, medium, 4, func(m *mortal) { m.survives(victims, death) })
				})
			}
		}
	}
}

// survives loses ranks and regroups, as often as there are victims.
func (m *mortal) survives(victims [][]int, death func(m *mortal, dies func()) error) {
	id, left := m.Rank(), []int{0, 1, 2, 3}
	m.works(left)
	for i, dead := range victims {
		m.meets(fmt.Sprint("worked", i), id, left)
		began := time.Now()
		if slices.Contains(dead, id) {
			_ = death(m, func() { m.die(id) })
			return
		}
		err := death(m, nil)
		require.ErrorIs(m.t, err, colligo.ErrPeerLost)
		took := time.Since(began)
		require.Less(m.t, took, time.Minute)
		old := m.Group
		n, err := pg.Regroup(m.t.Context(), old)
		require.NoError(m.t, err)
		m.t.Logf("rank %d lost %v after %v, and is in %v after %v", id, dead, took.Round(time.Millisecond), n, time.Since(began).Round(time.Millisecond))
		left = slices.DeleteFunc(slices.Clone(left), func(r int) bool { return slices.Contains(dead, r) })
		require.Less(m.t, time.Since(began), time.Minute)
		m.rank = m.in(n)
		m.works(left)
	}
	m.meets("done", id, left)
	m.leave()
}

// regroupAlive has rank 1's process end by a signal. The others regroup, and their sums are right, on GPUs where there are some.
func regroupAlive(t *testing.T, g *pg.Group) {
	r := childOf(t, g)
	r.works([]int{0, 1, 2})
	require.NoError(t, g.Barrier(t.Context()), "what each rank has read of the others is read")
	r.meet("through")
	if r.Rank() == 1 {
		kill(syscall.SIGKILL)
	}
	require.ErrorIs(t, r.until(), colligo.ErrPeerLost)
	n, err := pg.Regroup(t.Context(), g)
	require.NoError(t, err)
	r.Group = n
	r.works([]int{0, 2})
	require.NoError(t, n.Barrier(t.Context()))
	r.leave()
}

// TestRegroupProcesses kills one of three processes.
func TestRegroupProcesses(t *testing.T) {
	beside(t)
	for rank, p := range processes(t, 3, "regroup", t.TempDir()) {
		if rank == 1 {
			require.NotZero(t, p.code, "it was killed")
		} else {
			require.Zero(t, p.code, "rank %d:\n%s", rank, p.out)
		}
	}
}

// TestLeftOnDevicesAreNotBlamed stops rank 3 before a gather to rank 2, while ranks 0 and 1 have done their part and closed the group.
// Rank 2's error blames the stopped rank, and no rank that has left. Over peer all ranks wait for the stopped one.
func TestLeftOnDevicesAreNotBlamed(t *testing.T) {
	beside(t)
	for _, medium := range []string{"cpu", "peer", "staged", "nccl"} {
		t.Run("medium="+medium, func(t *testing.T) {
			beside(t)
			over := make(chan struct{})
			jobOf(t, medium, 4, func(m *mortal) {
				m.works([]int{0, 1, 2, 3})
				m.meets("worked", m.Rank(), []int{0, 1, 2, 3})
				if m.Rank() == 3 {
					m.dead = true // what its group says at the end is of no interest
					m.job.net.Pause(3)
					<-over
					m.job.net.Resume(3)
					return
				}
				require.NoError(m.t, m.SetTimeout(8*time.Second))
				var outs []colligo.Tensor
				for range 4 {
					if m.Rank() == 2 {
						outs = append(outs, full(m.rank, 10, float32(0)))
					}
				}
				w := m.GatherAsync(m.ctx, outs, full(m.rank, 10, float32(1)), 2)
				if m.Rank() != 2 && medium != "peer" {
					require.NoError(m.t, w.Synchronize(m.t.Context()))
					require.NoError(m.t, m.Close())
					return
				}
				if m.Rank() == 2 {
					defer close(over)
				}
				err := w.Synchronize(m.t.Context())
				require.ErrorIs(m.t, err, colligo.ErrTimeout)
				says := "rank 3 does not answer after 8s; rank 2 waits; ranks 0-1 have closed the group"
				if medium == "peer" { // another rank may be held up when it is asked
					says = `ranks? ([0-2][-, ]+)*3 do(es)? not answer after 8s; ranks? [0-2, -]+ waits?\b`
				}
				require.Regexp(m.t, says, err.Error())
			})
		})
	}
}
