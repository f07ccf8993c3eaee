package transporttest

import (
	"bytes"
	"cmp"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/colligo-go/colligo/transport"
)

// laneUser sends frames on a lane of a link and takes as many, on one goroutine.
type laneUser struct {
	link        transport.Link
	lane        int
	frames      int // to be sent, and to be taken
	sent, taken int
	p, got      []byte
}

const (
	laneFrames = 500 // on the first lane
	laneBytes  = 3000
)

// fill makes the payload of a frame.
func (u *laneUser) fill(p []byte, frame int) {
	for i := range p {
		p[i] = byte(frame + i/8 + u.lane)
	}
}

// send offers the next frame. Every other one stays where it is, if the link can do that.
func (u *laneUser) send() (bool, error) {
	if u.sent == u.frames {
		return false, nil
	}
	u.fill(u.p, u.sent)
	send := u.link.Send
	if z, ok := u.link.(transport.ZeroCopier); ok && u.sent%2 == 1 && z.MaxZeroCopy() >= laneBytes {
		send = z.SendZeroCopy
	}
	ok, err := send(&transport.Header{Lane: uint16(u.lane), Step: uint32(u.sent), Len: laneBytes}, u.p)
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

// laneUsers are the users that share one goroutine.
type laneUsers []*laneUser

// run sends and takes all frames of the users. It waits after a round in which no user could do either.
func (all laneUsers) run(wait func(idle int, until time.Time)) error {
	for idle := 0; all.busy(); idle++ {
		for _, u := range all {
			sent, err1 := u.send()
			took, err2 := u.take()
			if err := cmp.Or(err1, err2); err != nil {
				return err
			}
			if sent || took {
				idle = 0
			}
		}
		if idle > 0 {
			wait(idle, time.Time{})
		}
	}
	return nil
}

// busy reports whether anything is left to do.
func (all laneUsers) busy() bool {
	for _, u := range all {
		if u.sent < u.frames || u.taken < u.frames {
			return true
		}
	}
	return false
}

// Lane has each of two goroutines of a rank use a lane of a transport.Laned, and wait for it. Its peer does so, too, or uses both lanes
// on one goroutine. The lane that is lent has more frames, so that no frame of the other wakes its goroutine in the end.
func Lane(t *testing.T, open Opener) {
	for _, lending := range []int{2, 1} {
		var all sync.WaitGroup
		run := func(rank int, users laneUsers, wait func(int, time.Time)) {
			all.Go(func() {
				if err := users.run(wait); err != nil {
					t.Errorf("rank %d: %v", rank, err)
				}
			})
		}
		for rank, m := range open(t, 2, nil) {
			var users laneUsers
			for lane := range 2 {
				users = append(users, &laneUser{link: m.Link(1 - rank), lane: lane, frames: laneFrames << lane, p: make([]byte, laneBytes), got: make([]byte, laneBytes)})
			}
			if rank == lending {
				run(rank, users, m.Wait)
				continue
			}
			w := lane(t, m)
			run(rank, users[:1], m.Wait)
			run(rank, users[1:], w.Wait)
		}
		all.Wait()
	}
}

// lane borrows the second lane of a mesh, which lends no other.
func lane(t *testing.T, m transport.Mesh) transport.LaneWaiter {
	t.Helper()
	w := m.(transport.Laned).Lane(1)
	if w == nil || m.(transport.Laned).Lane(2) != nil {
		t.Fatal("a mesh lends its second lane, and that lane alone")
	}
	return w
}

// LaneWakes has a wait for a lane end by either wake and by the end of the mesh.
func LaneWakes(t *testing.T, open Opener) {
	m := open(t, 2, nil)[0]
	w := lane(t, m)
	wakes(t, "its own", w, w.Wake)
	wakes(t, "the mesh's", w, m.Wake)
	wakes(t, "the end", w, func() { m.Close() })
	w.Wait(1000, time.Time{}) // of a closed mesh it ends at once
}

// wakes has a goroutine wait for good, and be woken.
func wakes(t *testing.T, name string, w transport.LaneWaiter, wake func()) {
	t.Helper()
	var woken atomic.Bool
	over := make(chan struct{})
	go func() {
		defer close(over)
		for idle := 1; !woken.Load(); idle++ {
			w.Wait(idle, time.Time{})
		}
	}()
	time.Sleep(20 * time.Millisecond)
	woken.Store(true)
	wake()
	select {
	case <-over:
	case <-time.After(10 * time.Second):
		t.Fatalf("%s: it still waits", name)
	}
}
