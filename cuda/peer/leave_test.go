package peer

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/cudasim"
	"github.com/colligo-go/colligo/cuda/internal/streamorder"
	"github.com/colligo-go/colligo/pg"
)

// unmapping is a process's driver that calls f before it unmaps.
func unmapping(p *cudasim.Process, f func()) *cuda.Driver {
	d := *p.Driver()
	unmap := d.IpcCloseMemHandle
	d.IpcCloseMemHandle = func(at cuda.Pointer) cuda.Result {
		f()
		return unmap(at)
	}
	return &d
}

// slowly makes processes of which each takes longer to unmap than the one before it, and gives them to as many ranks each.
func slowly(sim *cudasim.Sim, processes, ranks int) func(rank int) *cuda.Driver {
	var all []*cuda.Driver
	for i := range processes {
		all = append(all, unmapping(sim.Process(), func() { time.Sleep(time.Duration(i) * 50 * time.Millisecond) }))
	}
	return func(rank int) *cuda.Driver { return all[rank/ranks] }
}

// summed adds, so that there is a symmetric heap.
func (r *rank) summed() error {
	return r.allReduce(trial{dtype: colligo.Float32, op: colligo.Sum, count: 5000})
}

// TestFreedAfterUnmapping closes groups some of whose processes are slow to unmap: no symmetric heap and no registered memory is freed
// before. The simulator finds where one is.
func TestFreedAfterUnmapping(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ processes, ranks, devices int }{{2, 1, 2}, {2, 1, 1}, {3, 1, 3}, {2, 2, 4}, {2, 2, 2}} {
		for _, registers := range []bool{false, true} {
			t.Run(fmt.Sprintf("processes=%d/ranks=%d/devices=%d/registered=%v", c.processes, c.ranks, c.devices, registers), func(t *testing.T) {
				t.Parallel()
				driver := slowly(simulated(t, c.devices), c.processes, c.ranks)
				onDrivers(t, driver, c.processes*c.ranks, c.devices, simHalf, registered(Direct), func(r *rank) error {
					if registers {
						if _, err := r.register(); err != nil {
							return err
						}
					}
					return r.summed()
				})
			})
		}
	}
}

// TestUnregisteredAfterUnmapping frees memory as soon as its registration is closed, or has failed.
func TestUnregisteredAfterUnmapping(t *testing.T) {
	t.Parallel()
	for _, fails := range []bool{false, true} {
		t.Run(fmt.Sprintf("fails=%v", fails), func(t *testing.T) {
			t.Parallel()
			onDrivers(t, slowly(simulated(t, 3), 3, 1), 3, 3, simHalf, registered(Direct), func(r *rank) error {
				t, err := r.device.Enter()
				if err != nil {
					return err
				}
				defer t.Leave()
				const bytes = 1 << 20
				at, err := t.Alloc(bytes)
				if err != nil {
					return err
				}
				n := bytes
				if fails && r.g.Rank() == 2 {
					n--
				}
				x, err := r.g.Register(r.ctx, colligo.OnDevice(r.device.Place(), uintptr(at), n, colligo.Uint8))
				if fails != (err != nil) {
					return fmt.Errorf("registering: %w", err)
				}
				if err == nil {
					err = x.Close()
				} else {
					err = nil
				}
				return first(err, func() error { return t.Free(at) }, r.summed)
			})
		})
	}
}

// TestTwoDevicesLeft closes groups of which each rank has used two devices.
func TestTwoDevicesLeft(t *testing.T) {
	t.Parallel()
	driver := slowly(simulated(t, 4), 2, 1)
	onDrivers(t, driver, 2, 2, simHalf, small(LL), func(r *rank) (err error) {
		o := small(LL)
		o.farewell = time.Minute
		other, err := newRank(t.Context(), r.g, driver(r.g.Rank()), 2+r.g.Rank(), simHalf, o)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, other.close()) }()
		return first(r.summed(), other.summed)
	})
}

// left opens ranks in processes of their own, which close as late as late says. It returns how long each took. Each rank that has closed
// is sent to late.
func left(t *testing.T, drivers []*cuda.Driver, limit time.Duration, late func(rank int, closed <-chan int)) (took []time.Duration, errs []error) {
	o, size := small(LL), len(drivers)
	o.farewell = limit
	took, errs = make([]time.Duration, size), make([]error, size)
	groups, err := pg.InProcess(t.Context(), size, pg.Config{})
	require.NoError(t, err)
	var all, summed sync.WaitGroup
	summed.Add(size)
	closed := make(chan int, size)
	for i, g := range groups {
		all.Go(func() {
			r, err := newRank(t.Context(), g, drivers[i], i, simHalf, o)
			if err == nil {
				err = r.summed()
			}
			summed.Done()
			summed.Wait()
			late(i, closed)
			begun := time.Now()
			errs[i] = errors.Join(err, g.Close())
			took[i] = time.Since(begun)
			closed <- i
			if r != nil {
				errs[i] = errors.Join(errs[i], r.close())
			}
		})
	}
	all.Wait()
	return took, errs
}

// TestLeftLate has a rank close when the others have given up waiting for it. It waits for none of them.
func TestLeftLate(t *testing.T) {
	t.Parallel()
	const limit = 10 * time.Second
	sim := machine(t, 3)
	var drivers []*cuda.Driver
	for range 3 {
		drivers = append(drivers, sim.Process().Driver())
	}
	took, errs := left(t, drivers, limit, func(rank int, closed <-chan int) {
		if rank == 2 {
			<-closed
			<-closed
		}
	})
	require.NoError(t, errors.Join(errs...))
	require.Greater(t, took[0], limit/2)
	require.Less(t, took[0], 3*limit/2)
	require.Less(t, took[2], limit/2)
	require.Empty(t, sim.Leaks())
	require.NotEmpty(t, sim.Faults()) // the late one had the others' memory mapped
	for _, f := range sim.Faults() {
		require.Contains(t, f, "has mapped by IPC")
	}
	sim.Close()
}

// TestLeftAfterFailure has a rank of a failed group close a second after its peer. It could have let an earlier operation go on for so long.
// The peer has not freed its heap. It waits for two seconds. A busy machine may be later in one try, but hardly in three.
func TestLeftAfterFailure(t *testing.T) {
	t.Parallel()
	faults := leftAfterFailure(t)
	for try := 1; try < 3 && len(faults) > 0; try++ {
		faults = leftAfterFailure(t)
	}
	require.Empty(t, faults)
}

// leftAfterFailure returns the faults and leaks of the machine of such a group.
func leftAfterFailure(t *testing.T) []string {
	sim := machine(t, 2)
	groups, err := pg.InProcess(t.Context(), 2, pg.Config{})
	require.NoError(t, err)
	var all sync.WaitGroup
	for i, g := range groups {
		all.Go(func() {
			r, err := newRank(t.Context(), g, sim.Process().Driver(), i, simHalf, small(LL))
			if !assert.NoError(t, err) {
				return
			}
			assert.NoError(t, r.summed())
			g.Abort(errors.New("enough"))
			if i == 1 {
				time.Sleep(streamorder.Farewell)
			}
			_ = g.Close() // tells why it has failed
			assert.NoError(t, r.close())
		})
	}
	all.Wait()
	sim.Close()
	return append(sim.Faults(), sim.Leaks()...)
}

// TestLeftByTheDead has the process of a rank end before it closes, and between the two meetings of a close.
func TestLeftByTheDead(t *testing.T) {
	t.Parallel()
	for _, between := range []bool{false, true} {
		t.Run(fmt.Sprintf("between=%v", between), func(t *testing.T) {
			t.Parallel()
			const limit = 10 * time.Second
			sim := machine(t, 3)
			victim := sim.Process()
			drivers := []*cuda.Driver{unmapping(victim, victim.Kill), sim.Process().Driver(), sim.Process().Driver()}
			took, errs := left(t, drivers, limit, func(rank int, _ <-chan int) {
				if rank == 0 && !between {
					victim.Kill()
				}
			})
			require.Error(t, errs[0])
			require.NoError(t, errors.Join(errs[1:]...))
			for _, d := range took[1:] {
				require.Less(t, d, 3*limit/2)
			}
			sim.Drain()
			require.Empty(t, sim.Faults())
			require.Empty(t, sim.Leaks())
			sim.Close()
		})
	}
}
