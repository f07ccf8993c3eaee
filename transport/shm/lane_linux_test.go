package shm

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/transport"
	"github.com/colligo-go/colligo/transport/transporttest"
)

// TestLane has each of two goroutines of a rank use a lane, and wait for it.
func TestLane(t *testing.T) {
	for name, with := range map[string]func(*transport.Config){
		"plain":        func(*transport.Config) {},
		"two slots":    func(c *transport.Config) { c.Slots = 2 },
		"checksum":     func(c *transport.Config) { c.Checksum = true },
		"small frames": func(c *transport.Config) { c.FrameBytes = 4 << 10 },
	} {
		t.Run(name, func(t *testing.T) {
			transporttest.Lane(t, func(t *testing.T, size int, _ func(int, *transport.Config)) []transport.Mesh {
				return open(t, size, func(_ int, c *transport.Config) { with(c) })
			})
		})
	}
	m := open(t, 2, func(_ int, c *transport.Config) { c.Lanes = 1 })[0]
	require.Nil(t, m.(transport.Laned).Lane(1), "a mesh of one lane")
	m = open(t, 2, nil)[0]
	require.Nil(t, m.(transport.Laned).Lane(0), "that of the mesh's own goroutine")
	require.NotNil(t, m.(transport.Laned).Lane(1))
	require.Nil(t, m.(transport.Laned).Lane(1), "it is lent already")
}

// TestLaneOfAll has a frame of the lane that could be lent wake a rank which has lent none.
func TestLaneOfAll(t *testing.T) {
	meshes := open(t, 2, nil)
	came := make(chan error, 1)
	go func() {
		in := meshes[1].Link(0)
		for idle := 1; ; idle++ {
			if h, err := in.Head(lentLane); h != nil || err != nil {
				came <- err
				return
			}
			meshes[1].Wait(idle, time.Time{})
		}
	}()
	time.Sleep(20 * time.Millisecond) // it sleeps
	ok, err := meshes[0].Link(1).Send(&transport.Header{Lane: lentLane, Len: 1}, []byte{1})
	require.NoError(t, err)
	require.True(t, ok)
	select {
	case err := <-came:
		require.NoError(t, err)
	case <-time.After(limit):
		t.Fatal("it still sleeps")
	}
}

// TestLaneWakes has a wait for a lane end by either wake and by the end of the mesh.
func TestLaneWakes(t *testing.T) { transporttest.LaneWakes(t, open) }
