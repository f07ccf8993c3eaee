package shm

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// meetOnACore opens a group of two in which the second rank seems to be on the first one's core. The test keeps its thread.
func meetOnACore(t *testing.T, crowded bool) (m *mesh, peer *link) {
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	m = open(t, 2, nil)[0].(*mesh)
	m.patience.company = false
	m.patience.share(crowded)
	m.place()
	peer = m.Link(1).(*link)
	peer.door.core.Store(m.door.core.Load())
	return m, peer
}

// allowed is the set of CPUs on which this thread may run.
func allowed(t *testing.T) (set unix.CPUSet) {
	require.NoError(t, unix.SchedGetaffinity(0, &set))
	return set
}

// TestPart has a rank find a peer on its core, though there are cores for both. It goes to another one, once in a while, and may run where
// it might before.
func TestPart(t *testing.T) {
	before := allowed(t)
	if before.Count() < 2 {
		t.Skip("there is one CPU, so ranks share it")
	}
	m, peer := meetOnACore(t, false)
	for end := time.Now().Add(limit); ; { // the system may move this thread as well
		require.True(t, time.Now().Before(end), "no attempt took the rank to another core")
		m.place()
		core := m.door.core.Load()
		peer.door.core.Store(core)
		m.neighbours.parted = time.Time{}
		if m.part() && m.door.core.Load() != core {
			break
		}
	}
	require.Equal(t, before, allowed(t))
	m.neighbours.parted = time.Now()
	peer.door.core.Store(m.door.core.Load())
	require.False(t, m.part(), "it has just moved")
	m.neighbours.parted = time.Time{}
	peer.door.core.Store(0)
	require.False(t, m.part(), "nobody is there")
}

// TestPartsOnlyWhereItHelps holds that ranks stay where they are if there is a core less than ranks, or no other that they may use.
func TestPartsOnlyWhereItHelps(t *testing.T) {
	m, _ := meetOnACore(t, true)
	m.sleep(time.Time{})
	require.True(t, m.patience.armed, "ranks share cores")
	require.Zero(t, m.neighbours.parted)

	all := allowed(t)
	var one unix.CPUSet
	for cpu := 0; one.Count() == 0; cpu++ {
		if all.IsSet(cpu) {
			one.Set(cpu)
		}
	}
	require.NoError(t, unix.SchedSetaffinity(0, &one))
	defer func() { require.NoError(t, unix.SchedSetaffinity(0, &all)) }()
	m, peer := meetOnACore(t, false)
	m.place()
	peer.door.core.Store(m.door.core.Load())
	require.False(t, m.part(), "this thread may run on one CPU alone")
	require.Equal(t, one, allowed(t))
}

// TestGoesOn holds that a rank which is about to sleep with a peer on its core looks on after the move.
func TestGoesOn(t *testing.T) {
	if all := allowed(t); all.Count() < 2 {
		t.Skip("there is one CPU, so ranks share it")
	}
	m, peer := meetOnACore(t, false)
	for end := time.Now().Add(limit); ; {
		require.True(t, time.Now().Before(end))
		m.place()
		peer.door.core.Store(m.door.core.Load())
		m.neighbours.parted = time.Time{}
		m.sleep(time.Time{})
		if !m.patience.armed {
			break // without a move it would be
		}
		m.disarm()
	}
	require.Zero(t, m.door.asleep.Load())
	peer.door.core.Store(0)
	m.sleep(time.Time{})
	require.True(t, m.patience.armed)
}

// TestTellsItsCore holds that a rank which takes frames without waiting tells its peers where it is.
func TestTellsItsCore(t *testing.T) {
	meshes := open(t, 2, nil)
	m := meshes[0].(*mesh)
	m.place()
	m.door.core.Store(1 << 31)
	for range placeFrames + 1 {
		put(t, meshes[1].Link(0).(*link), 0, []byte{1})
		h, err := m.Link(1).Head(0)
		require.NoError(t, err)
		require.NotNil(t, h)
		m.Link(1).Release(0)
	}
	require.NotEqual(t, uint32(1<<31), m.door.core.Load())
}

// TestDoorSleeps has a rank sleep until it is woken or has slept long enough, whether Go's scheduler hears of the beginning or not.
func TestDoorSleeps(t *testing.T) {
	for name, nap := range map[string]bool{"nap": true, "no nap": false} {
		t.Run(name, func(t *testing.T) {
			var d door
			var scratch unix.Timespec
			for _, after := range []time.Duration{0, napTime / 2, 20 * napTime} {
				seen := d.rings.Load()
				go func() {
					time.Sleep(after)
					d.ring()
				}()
				for d.rings.Load() == seen {
					d.sleep(seen, 0, nap, &scratch)
				}
			}
			for _, length := range []time.Duration{napTime / 2, 20 * napTime} {
				slept := time.Duration(0)
				for end := time.Now().Add(limit); slept < length; { // a signal may end one early
					require.True(t, time.Now().Before(end), "no sleep of %v was as long", length)
					began := time.Now()
					d.sleep(d.rings.Load(), length, nap, &scratch)
					slept = time.Since(began)
				}
				require.Less(t, slept, limit)
			}
		})
	}
}
