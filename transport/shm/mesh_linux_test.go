package shm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/transport"
	"github.com/colligo-go/colligo/transport/transporttest"
)

// held is what of meshes this process has: descriptors, maps of segments, goroutines.
func held(t *testing.T) [3]int {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	maps, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	return [3]int{len(fds), strings.Count(string(maps), "memfd:colligo"), runtime.NumGoroutine()}
}

// settled waits until this process holds no more than before.
func settled(t *testing.T, before [3]int) {
	t.Helper()
	require.Eventually(t, func() bool {
		now := held(t)
		return now[0] <= before[0] && now[1] <= before[1] && now[2] <= before[2]+1 // this poll is a goroutine
	}, limit, 5*time.Millisecond, "held before: %v", before)
}

func TestMeshesLeaveNothingBehind(t *testing.T) {
	open(t, 2, nil)[0].Close() // what the runtime makes at first use
	t.Run("first", func(t *testing.T) { open(t, 2, nil) })
	before := held(t)
	for i := range 100 {
		t.Run("pair", func(t *testing.T) {
			m := open(t, 2, nil)
			require.NoError(t, send(m[0], 1, 0, uint64(i), []byte("something")))
			require.Positive(t, held(t)[1])
		})
	}
	settled(t, before)
}

func TestNothingWorksAfterClose(t *testing.T) {
	meshes := open(t, 2, nil)
	l := meshes[0].Link(1)
	require.NoError(t, send(meshes[1], 0, 0, 0, []byte("unread")))
	require.NoError(t, meshes[0].Close())
	require.NoError(t, meshes[0].Close())
	_, err := l.Send(&transport.Header{}, nil)
	require.ErrorIs(t, err, transport.ErrClosed)
	_, err = l.Head(0)
	require.ErrorIs(t, err, transport.ErrClosed)
	_, _, err = l.Body(0, nil)
	require.ErrorIs(t, err, transport.ErrClosed)
	require.ErrorIs(t, meshes[0].Notify(1, nil), transport.ErrClosed)
	require.Nil(t, l.Slot(0, 8))
	l.Release(0)
	meshes[0].Wake()
	for idle := range 1000 {
		meshes[0].Wait(idle+1, time.Time{})
	}
}

func TestCloseEndsAWait(t *testing.T) {
	for range 20 {
		m := open(t, 2, nil)[0]
		var wg sync.WaitGroup
		stop := make(chan struct{})
		wg.Go(func() {
			for idle := 1; ; idle++ {
				select {
				case <-stop:
					return
				default:
					m.Wait(idle, time.Now().Add(limit))
				}
			}
		})
		time.Sleep(time.Millisecond)
		start := time.Now()
		require.NoError(t, m.Close())
		close(stop)
		wg.Wait()
		require.Less(t, time.Since(start), limit/2)
	}
}

// Two ranks of different groups, of which one has other settings.
func TestSettingsMustAgree(t *testing.T) {
	r := transporttest.NewRendezvous()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	errs := make([]error, 2)
	var wg sync.WaitGroup
	for rank := range 2 {
		wg.Go(func() {
			_, errs[rank] = Open(ctx, &transport.Config{Rank: rank, Size: 2, Lanes: 1 + rank, Rendezvous: r})
		})
	}
	wg.Wait()
	for rank, err := range errs {
		require.ErrorContains(t, err, fmt.Sprintf("rank %d cannot link with rank %d", rank, 1-rank))
	}
}

func TestOpenSaysWhoIsMissing(t *testing.T) {
	before := held(t)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err := Open(ctx, &transport.Config{Rank: 0, Size: 3, Lanes: 1, Rendezvous: transporttest.NewRendezvous()})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "rank 0 of 3 is not linked with rank 1, 2")
	settled(t, before)
}

func TestOtherHostsAreRefused(t *testing.T) {
	r := transporttest.NewRendezvous()
	require.NoError(t, r.Set(t.Context(), key(0), []byte("elsewhere\n@nobody")))
	_, err := Open(t.Context(), &transport.Config{Rank: 1, Size: 2, Lanes: 1, Rendezvous: r})
	require.ErrorContains(t, err, `rank 0: is on host "elsewhere"`)
}

func TestRendezvousErrorsAreKept(t *testing.T) {
	_, err := Open(t.Context(), &transport.Config{Rank: 1, Size: 2, Lanes: 1, Rendezvous: broken{}})
	require.ErrorIs(t, err, errBroken)
}

type broken struct{}

var errBroken = errors.New("no store")

func (broken) Set(context.Context, string, []byte) error   { return errBroken }
func (broken) Get(context.Context, string) ([]byte, error) { return nil, errBroken }

func TestHostID(t *testing.T) {
	require.NotEmpty(t, HostID())
	require.Equal(t, HostID(), HostID())
}

// TestSpin holds that a rank which spins finds its frame, looks at the clock every so often, and touches nothing after Close.
func TestSpin(t *testing.T) {
	for name, set := range map[string]func(*patience){"shares its process": nil, "has a core": func(p *patience) { p.share(false) },
		"shares cores": func(p *patience) { p.share(true) }} {
		t.Run(name, func(t *testing.T) {
			meshes := open(t, 2, nil)
			m := meshes[1].(*mesh)
			alone := set != nil
			if alone {
				m.patience.company = false
				set(&m.patience)
			}
			again := 0
			for idle := 1; idle <= 4*m.patience.rounds; idle++ {
				h, err := m.Link(0).Head(0)
				require.NoError(t, err)
				require.Nil(t, h)
				if m.Spin(idle) {
					again++
				}
			}
			if alone {
				require.Equal(t, 4*m.patience.rounds-4, again)
			} else {
				require.Zero(t, again, "ranks of one process leave all rounds to Wait")
			}
			put(t, meshes[0].Link(1).(*link), 0, []byte{1})
			require.Equal(t, alone, m.Spin(1), "something has moved in between")
			h, err := m.Link(0).Head(0)
			require.NoError(t, err)
			require.NotNil(t, h)
			m.Link(0).Release(0)
			_, err = m.Link(0).Head(0)
			require.NoError(t, err)
			require.NoError(t, m.Close())
			m.Spin(1)
		})
	}
}

// TestSpinThenWait holds that rounds which Spin and Wait share are one idle period: a rank for which nothing comes goes to sleep.
func TestSpinThenWait(t *testing.T) {
	for name, set := range map[string]func(*patience){
		"shares its process": func(*patience) {},
		"has a core":         func(p *patience) { p.company = false; p.share(false) },
		"shares cores":       func(p *patience) { p.company = false; p.share(true) },
	} {
		t.Run(name, func(t *testing.T) {
			m := open(t, 2, nil)[1].(*mesh)
			set(&m.patience)
			for idle, end := 1, time.Now().Add(limit); !m.patience.armed; idle++ {
				require.True(t, time.Now().Before(end), "the rank still spins")
				if !m.Spin(idle) {
					m.Wait(idle, time.Time{})
				}
			}
		})
	}
}

// TestBetweenLongFrames holds that a rank on a shared core does not look on between long frames, but does between short ones.
func TestBetweenLongFrames(t *testing.T) {
	meshes := open(t, 2, nil)
	m := meshes[1].(*mesh)
	m.patience.company = false
	m.patience.share(true)
	for _, n := range []int{1, 64 << 10, 1000} {
		put(t, meshes[0].Link(1).(*link), 0, make([]byte, n))
		h, err := m.Link(0).Head(0)
		require.NoError(t, err)
		require.NotNil(t, h)
		m.Link(0).Release(0)
		h, err = m.Link(0).Head(0)
		require.NoError(t, err)
		require.Nil(t, h)
		m.neighbours.due = 100
		require.True(t, m.Spin(1))
		looked := m.neighbours.due < 100
		require.Equal(t, n <= 1000, looked, "after %d bytes", n)
	}
}

// TestNeighbours has a rank share its core with one of two peers. It gives the core away while that peer owes it a frame, and
// looks on while only the other one does.
func TestNeighbours(t *testing.T) {
	meshes := open(t, 3, nil)
	m := meshes[0].(*mesh)
	near, far := m.Link(1).(*link), m.Link(2).(*link)
	for core, end := uint32(0), time.Now().Add(limit); core == 0 || core != m.door.core.Load(); { // the system may move this thread
		require.True(t, time.Now().Before(end))
		m.place()
		core = m.door.core.Load()
		require.Positive(t, core)
		near.door.core.Store(core)
		far.door.core.Store(core + 1)
		m.place()
	}
	require.Equal(t, []*link{near}, m.neighbours.links)
	m.neighbours.due = 100
	h, err := far.Head(0)
	require.NoError(t, err)
	require.Nil(t, h)
	require.Equal(t, 1, m.misses)
	put(t, meshes[2].Link(0).(*link), 0, []byte{1})
	require.False(t, m.awaitOther(), "the neighbour has sent nothing")
	put(t, meshes[1].Link(0).(*link), 0, []byte{1})
	require.True(t, m.awaitOther(), "both have sent")
	h, err = far.Head(0)
	require.NoError(t, err)
	require.NotNil(t, h)
	require.Zero(t, m.misses)
	far.Release(0)
	_, err = far.Head(0)
	require.NoError(t, err)
	require.False(t, m.awaitOther(), "the other one has sent nothing more")
	require.Equal(t, 97, m.neighbours.due)
	put(t, meshes[1].Link(0).(*link), 0, []byte{1})
	put(t, meshes[2].Link(0).(*link), 0, []byte{1})
	m.neighbours.unknown = true
	require.False(t, m.awaitOther(), "nobody knows who is on this core")
}
