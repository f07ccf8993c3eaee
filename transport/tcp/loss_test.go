//go:build unix

package tcp

import (
	"bytes"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/internal/testload"
	"github.com/colligo-go/colligo/transport"
	"github.com/colligo-go/colligo/transport/internal/stream"
	"github.com/colligo-go/colligo/transport/transporttest"
)

func init() {
	// half sends a small frame and as much of an endless row of large ones as fits, and says so.
	roles["half"] = func(m transport.Mesh) error {
		if err := sendAll(m, 0, transport.Header{}, []byte("whole")); err != nil {
			return err
		}
		p := make([]byte, m.Link(0).MaxFrame())
		for ok := true; ok; {
			var err error
			if ok, err = m.Link(0).Send(&transport.Header{Len: uint32(len(p))}, p); err != nil {
				return err
			}
		}
		if err := m.Notify(0, []byte("stuck")); err != nil {
			return err
		}
		select {}
	}
}

type loss struct {
	peer int
	err  error
}

// observed sets events that go to channels.
func observed(c *transport.Config) (notes chan string, losses chan loss) {
	notes, losses = make(chan string, 10), make(chan loss, 10)
	c.Events = transport.Events{
		Note: func(_ int, note []byte) { notes <- string(note) },
		Lost: func(peer int, err error) { losses <- loss{peer, err} },
	}
	return notes, losses
}

// TestDeath kills a peer in the middle of a frame: what came whole can be taken, then there is an error that names it. Close does not
// wait for the dead. A busy machine may hold it up for as long, but hardly several times.
func TestDeath(t *testing.T) {
	transporttest.NoLeaks(t)
	testload.Soonest(t, 5, closeLimit/2, func() time.Duration { return death(t) })
}

// death returns how long Close has taken.
func death(t *testing.T) (took time.Duration) {
	var notes chan string
	var losses chan loss
	m, child := withChild(t, "half", func(c *transport.Config) {
		notes, losses = observed(c)
		c.FrameBytes = 1 << 20
	})
	require.Equal(t, "stuck", <-notes)
	require.NoError(t, child.Process.Kill())
	child.Wait()
	lost := <-losses
	require.Equal(t, 1, lost.peer)
	require.ErrorIs(t, lost.err, transport.ErrLost)
	_, p, err := receive(m, 1, 0, nil)
	require.NoError(t, err)
	require.Equal(t, "whole", string(p))
	m.Link(1).Release(0)
	for err == nil {
		if _, p, err = receive(m, 1, 0, nil); err == nil {
			require.True(t, bytes.Equal(p, make([]byte, 1<<20)))
			m.Link(1).Release(0)
		}
	}
	require.ErrorIs(t, err, transport.ErrLost)
	var pe *transport.PeerError
	require.ErrorAs(t, err, &pe)
	require.Equal(t, 1, pe.Peer)
	require.ErrorIs(t, sendAll(m, 1, transport.Header{}, nil), transport.ErrLost)
	require.ErrorIs(t, m.Notify(1, nil), transport.ErrLost)
	start := time.Now()
	require.NoError(t, m.Close())
	took = time.Since(start)
	require.Empty(t, losses)
	return took
}

// TestStopped stops a peer: it is not lost, notes to it do not wait, and Close ends.
func TestStopped(t *testing.T) {
	transporttest.NoLeaks(t)
	testload.Soonest(t, 3, 3*closeLimit, func() time.Duration { return stopped(t) })
}

// stopped returns how long Close has taken.
func stopped(t *testing.T) time.Duration {
	var losses chan loss
	m, child := withChild(t, "echo", func(c *transport.Config) { _, losses = observed(c) })
	require.NoError(t, child.Process.Signal(syscall.SIGSTOP))
	p := make([]byte, m.Link(1).MaxFrame())
	for ok := true; ok; {
		var err error
		ok, err = m.Link(1).Send(&transport.Header{Len: uint32(len(p))}, p)
		require.NoError(t, err)
	}
	require.NoError(t, m.Notify(1, []byte("anyone there?")))
	time.Sleep(200 * time.Millisecond)
	require.Empty(t, losses)
	start := time.Now()
	require.NoError(t, m.Close())
	return time.Since(start)
}

// TestLaneEnds ends one connection under a group that is well otherwise. The link waits for a while, as the control channel
// might explain the lane's end. Then it is an error.
func TestLaneEnds(t *testing.T) {
	transporttest.NoLeaks(t)
	meshes := opener(func(*transport.Config) {})(t, 2, nil)
	meshes[1].(*mesh).links[0].lanes[1].stream.Finish()
	start := time.Now()
	_, _, err := receive(meshes[0], 1, 1, nil)
	require.ErrorIs(t, err, transport.ErrLost)
	require.ErrorContains(t, err, "rank 1: peer lost: lane 1: connection closed")
	require.GreaterOrEqual(t, time.Since(start), grace)
}

// halfFrame has a peer send the header and some bytes of a frame of n, and say goodbye. It returns the link on which the
// header has come, and the peer's stream.
func halfFrame(t *testing.T, n int) (l transport.Link, s stream.Stream) {
	t.Helper()
	meshes := opener(func(*transport.Config) {})(t, 2, nil)
	peer := meshes[1].(*mesh)
	s = peer.links[0].lanes[0].stream
	var head [transport.HeaderSize]byte
	(&transport.Header{Len: uint32(n), Total: uint64(n)}).Encode(&head)
	sent, err := s.Write([][]byte{head[:], make([]byte, 8)})
	require.NoError(t, err)
	require.Equal(t, len(head)+8, sent)
	require.NoError(t, peer.control.Close())
	l = meshes[0].Link(1)
	require.Eventually(t, func() bool {
		h, err := l.Head(0)
		return err == nil && h != nil && meshes[0].(*mesh).links[1].gone.Load()
	}, time.Minute, time.Millisecond)
	return l, s
}

// TestFrameStops takes a frame of which no more comes after the goodbye, and asks for its header again each time. The end is
// an error once nothing has come for the grace.
func TestFrameStops(t *testing.T) {
	transporttest.NoLeaks(t)
	l, _ := halfFrame(t, 64)
	var err error
	start := time.Now()
	for err == nil && time.Since(start) < 60*grace {
		_, err = l.Head(0)
		require.NoError(t, err)
		_, _, err = l.Body(0, nil)
		time.Sleep(grace / 100)
	}
	require.ErrorIs(t, err, transport.ErrGoodbye)
	require.GreaterOrEqual(t, time.Since(start), grace-grace/10)
	_, again := l.Head(0)
	require.Equal(t, err, again, "the frame is not offered any more")
	_, _, again = l.Body(0, nil)
	require.Equal(t, err, again)
	l.Release(0)
}

// TestFrameSlow takes a frame that comes more slowly after the goodbye than the grace would allow it as a whole. It does not
// ask for the header again. Where a busy machine lets a byte take as long as the grace, the frame is not what is tested.
func TestFrameSlow(t *testing.T) {
	transporttest.NoLeaks(t)
	steady := false
	for i := 0; i < 10 && !steady; i++ {
		steady = frameSlow(t)
	}
	require.True(t, steady, "no frame has come steadily")
}

// frameSlow reports whether every byte has come soon after the one before it. Then the frame must be taken.
func frameSlow(t *testing.T) (steady bool) {
	const n = 8 + 15
	l, s := halfFrame(t, n)
	last := time.Now()
	for range n - 8 {
		_, ok, err := l.Body(0, nil)
		if time.Since(last) > grace/2 {
			return false
		}
		require.NoError(t, err)
		require.False(t, ok)
		last = time.Now()
		time.Sleep(grace / 10)
		_, err = s.Write([][]byte{{1}})
		require.NoError(t, err)
	}
	for {
		_, ok, err := l.Body(0, nil)
		if ok || time.Since(last) > grace/2 {
			require.NoError(t, err)
			return ok
		}
		require.NoError(t, err)
		time.Sleep(time.Millisecond)
	}
}
