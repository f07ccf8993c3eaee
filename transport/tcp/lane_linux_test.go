package tcp

import (
	"bytes"
	"cmp"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/transport"
)

// laneUser sends frames on a lane of a link and takes as many, on one goroutine.
type laneUser struct {
	link        transport.Link
	lane        int
	sent, taken int
	p, got      []byte
}

const (
	laneFrames = 1000
	laneBytes  = 3000
)

// fill makes the payload of a frame.
func (u *laneUser) fill(p []byte, frame int) {
	for i := range p {
		p[i] = byte(frame + i/8 + u.lane)
	}
}

// send offers the next frame.
func (u *laneUser) send() (bool, error) {
	if u.sent == laneFrames {
		return false, nil
	}
	u.fill(u.p, u.sent)
	ok, err := u.link.Send(&transport.Header{Lane: uint16(u.lane), Step: uint32(u.sent), Len: laneBytes}, u.p)
	if ok {
		u.sent++
	}
	return ok, err
}

// take takes the next frame, if it is there whole.
func (u *laneUser) take() (bool, error) {
	h, err := u.link.Head(u.lane)
	if h == nil || err != nil {
		return false, err
	}
	if _, ok, err := u.link.Body(u.lane, u.got); !ok || err != nil {
		return false, err
	}
	want := make([]byte, laneBytes)
	if u.fill(want, u.taken); h.Step != uint32(u.taken) || !bytes.Equal(want, u.got) {
		return false, fmt.Errorf("lane %d: frame %d in place of %d, or other bytes", u.lane, h.Step, u.taken)
	}
	u.link.Release(u.lane)
	u.taken++
	return true, nil
}

// run sends and takes all, and waits where neither can be done.
func (u *laneUser) run(wait func(idle int, until time.Time)) error {
	for idle := 0; u.sent < laneFrames || u.taken < laneFrames; idle++ {
		sent, err1 := u.send()
		took, err2 := u.take()
		if err := cmp.Or(err1, err2); err != nil {
			return err
		}
		if sent || took {
			idle = 0
			continue
		}
		wait(idle, time.Time{})
	}
	return nil
}

// TestLane has each of two goroutines of a rank use a lane, and wait for it.
func TestLane(t *testing.T) {
	for name, with := range map[string]func(*transport.Config){
		"plain":       func(*transport.Config) {},
		"s2 checksum": func(c *transport.Config) { c.Compression, c.Checksum = "s2", true },
		"zstd":        func(c *transport.Config) { c.Compression = "zstd" },
	} {
		t.Run(name, func(t *testing.T) {
			var all sync.WaitGroup
			for rank, m := range opener(with)(t, 2, nil) {
				w := m.(transport.Laned).Lane(1)
				require.NotNil(t, w)
				require.Nil(t, m.(transport.Laned).Lane(2), "one lane alone")
				for lane, wait := range []func(int, time.Time){m.Wait, w.Wait} {
					u := &laneUser{link: m.Link(1 - rank), lane: lane, p: make([]byte, laneBytes), got: make([]byte, laneBytes)}
					all.Go(func() {
						if err := u.run(wait); err != nil {
							t.Errorf("rank %d: %v", rank, err)
						}
					})
				}
			}
			all.Wait()
		})
	}
	certificate := testTLS(t)
	m := opener(func(c *transport.Config) { c.TLS = certificate })(t, 2, nil)[0]
	require.Nil(t, m.(transport.Laned).Lane(1), "goroutines of its own move what is encrypted")
}

// TestLaneWakes has a wait for a lane end by either wake and by the end of the mesh.
func TestLaneWakes(t *testing.T) {
	m := opener(func(*transport.Config) {})(t, 2, nil)[0]
	w := m.(transport.Laned).Lane(1)
	wakes(t, "its own", w, w.Wake)
	wakes(t, "the mesh's", w, m.Wake)
	wakes(t, "the end", w, func() { m.Close() })
	w.Wait(1000, time.Time{}) // of a closed mesh it ends at once
}

// wakes has a goroutine wait, and be woken.
func wakes(t *testing.T, name string, w transport.LaneWaiter, wake func()) {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.Wait(1000, time.Time{})
	}()
	time.Sleep(20 * time.Millisecond)
	wake()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Fatalf("%s: it still waits", name)
	}
}
