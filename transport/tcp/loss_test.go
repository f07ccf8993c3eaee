//go:build unix

package tcp

import (
	"bytes"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/transport"
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

// TestDeath kills a peer in the middle of a frame: what came whole can be taken, then there is an error that names it.
func TestDeath(t *testing.T) {
	transporttest.NoLeaks(t)
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
	require.Less(t, time.Since(start), time.Second/2)
	require.Empty(t, losses)
}

// TestStopped stops a peer: it is not lost, notes to it do not wait, and Close ends.
func TestStopped(t *testing.T) {
	transporttest.NoLeaks(t)
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
	require.Less(t, time.Since(start), 3*time.Second)
}

// TestLaneEnds ends one connection under a group that is well otherwise: the lane's end is waited on for a while, as the
// control channel might explain it, and is an error then.
func TestLaneEnds(t *testing.T) {
	transporttest.NoLeaks(t)
	meshes := opener(func(*transport.Config) {})(t, 2, nil)
	meshes[1].(*mesh).links[0].lanes[1].stream.finish()
	start := time.Now()
	_, _, err := receive(meshes[0], 1, 1, nil)
	require.ErrorIs(t, err, transport.ErrLost)
	require.ErrorContains(t, err, "rank 1: peer lost: lane 1: connection closed")
	require.GreaterOrEqual(t, time.Since(start), grace)
}
