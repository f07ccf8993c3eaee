package transporttest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/colligo-go/colligo/transport"
)

// goodbye closes a rank after one frame of it has arrived on each lane. The frames can be taken, and then every call on the
// link reports the same error.
func goodbye(t *testing.T, open Opener) {
	const lanes = 4
	box := newInbox(2)
	k := start(t, open, 2, box, small)
	meshes := k.meshes
	receivers := make([]*Receiver, lanes)
	for lane := range lanes {
		s := k.stream(1, 0, lane, 1000+lane)
		if err := Drive(meshes[1], limit, s.Sender(meshes[1], Plain)); err != nil {
			t.Fatal(err)
		}
		receivers[lane] = s.Receiver(meshes[0], InSlot)
		if err := Drive(meshes[0], limit, &arrived{receivers[lane]}); err != nil {
			t.Fatal(err)
		}
	}
	if err := meshes[1].Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	if err := box.expectLost(0, 1, transport.ErrGoodbye); err != nil {
		t.Fatal(err)
	}
	for lane := range lanes {
		if err := Drive(meshes[0], limit, receivers[lane]); err != nil {
			t.Fatalf("what arrived before the goodbye: %v", err)
		}
	}
	expectError(t, meshes[0], 1, transport.ErrGoodbye)
	time.Sleep(10 * time.Millisecond)
	if err := box.expectLost(0, 1, transport.ErrGoodbye); err != nil {
		t.Fatal(err)
	}
}

// arrived is done when the next frame is there in full; it takes nothing.
type arrived struct{ *Receiver }

func (f *arrived) Step() (moved, done bool, err error) {
	h, err := f.Link.Head(f.Lane)
	if err != nil || h == nil {
		return false, false, err
	}
	_, full, err := f.Link.Body(f.Lane, nil)
	return false, full, err
}

// lastError drives a lane of a link until it reports an error.
func lastError(m transport.Mesh, peer, lane int) error {
	r := &Receiver{Link: m.Link(peer), Peer: peer, Lane: lane, Count: 1 << 30,
		Take: func(i int, h *transport.Header, p []byte) error { return nil }}
	return Drive(m, limit, r)
}

// expectError waits until every lane of a link reports want as a *PeerError about the peer, and goes on doing so.
func expectError(t *testing.T, m transport.Mesh, peer int, want error) {
	t.Helper()
	first := ""
	for lane := range 4 {
		err := lastError(m, peer, lane)
		var about *transport.PeerError
		if !errors.Is(err, want) || !errors.As(err, &about) || about.Peer != peer {
			t.Fatalf("lane %d: error is %v, want a PeerError about rank %d wrapping %v", lane, err, peer, want)
		}
		if first == "" {
			first = about.Error()
		}
		_, err1 := m.Link(peer).Head(lane)
		_, err2 := m.Link(peer).Send(&transport.Header{Lane: uint16(lane)}, nil)
		_, _, err3 := m.Link(peer).Body(lane, nil)
		for i, err := range []error{about, err1, err2, err3} {
			if !errors.As(err, &about) || about.Error() != first {
				t.Fatalf("lane %d: call %d reports %v; the first error was %v", lane, i, err, first)
			}
		}
	}
}

// goodbyeMidStream closes a rank in the middle of a stream: the peer gets a beginning of it, whole and in order, and
// then the error. So does a peer that sends.
func goodbyeMidStream(t *testing.T, open Opener) {
	k := start(t, open, 2, nil, small)
	k.together(t, func(rank int, m transport.Mesh) error {
		out := k.flooding(rank, 1-rank, 0, 32<<10).Sender(m, Mixed)
		in := k.flooding(1-rank, rank, 0, 32<<10).Receiver(m, Mixed)
		if rank == 1 {
			out.Count, in.Count = 20, 10
			if err := Drive(m, limit, out, in); err != nil {
				return err
			}
			return m.Close()
		}
		for _, flows := range [][]Flow{{out, in}, {out}, {in}} {
			err := Drive(m, limit, flows...)
			var about *transport.PeerError
			if !errors.As(err, &about) || about.Peer != 1 {
				return fmt.Errorf("error is %w, want a PeerError about rank 1", err)
			}
		}
		if in.Taken() > 20 {
			return fmt.Errorf("took %d frames, sent were 20", in.Taken())
		}
		return nil
	})
}

// goodbyeOfOne closes one of three ranks; the others go on.
func goodbyeOfOne(t *testing.T, open Opener) {
	box := newInbox(3)
	k := start(t, open, 3, box, small)
	meshes := k.meshes
	if err := meshes[2].Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	for rank := range 2 {
		if err := box.expectLost(rank, 2, transport.ErrGoodbye); err != nil {
			t.Fatal(err)
		}
		expectError(t, meshes[rank], 2, transport.ErrGoodbye)
		if err := eventually(func() error { return refused(meshes[rank].Notify(2, []byte("anyone there"))) }); err != nil {
			t.Error(err)
		}
	}
	k.exchangeSizes(t, Mixed)
	for rank := range 2 {
		if n := box.losses(rank); n != 1 {
			t.Errorf("rank %d was told of %d losses, there was one", rank, n)
		}
	}
}

func refused(err error) error {
	if err == nil {
		return errors.New("a note to a rank that is gone was taken")
	}
	return nil
}

// closeTwice closes a mesh twice, after which every call says so and none waits.
func closeTwice(t *testing.T, open Opener) {
	m := open(t, 2, nil)[0]
	link := m.Link(1)
	for i := range 2 {
		if err := m.Close(); err != nil {
			t.Errorf("close %d: %v", i+1, err)
		}
	}
	_, err1 := link.Head(0)
	_, err2 := link.Send(&transport.Header{Len: 1}, []byte{1})
	_, _, err3 := link.Body(0, nil)
	err4 := m.Notify(1, []byte("note"))
	for i, err := range []error{err1, err2, err3, err4} {
		if !errors.Is(err, transport.ErrClosed) {
			t.Errorf("call %d on a closed mesh reports %v", i, err)
		}
	}
	if link.Slot(0, 1) != nil {
		t.Errorf("a closed mesh gives slots")
	}
	start := time.Now()
	m.Wake()
	m.Wait(1<<20, start.Add(limit))
	if took := time.Since(start); took > limit/2 {
		t.Errorf("Wait on a closed mesh took %v", took)
	}
}

// closeFull closes all ranks while their lanes are full and nobody receives.
func closeFull(t *testing.T, open Opener) {
	k := start(t, open, 3, nil, small)
	k.together(t, func(rank int, m transport.Mesh) error {
		return fill(m, k.flooding(rank, (rank+1)%3, 0, 64<<10).Sender(m, Mixed))
	})
	k.together(t, func(_ int, m transport.Mesh) error {
		start := time.Now()
		err := m.Close()
		if took := time.Since(start); err == nil && took > limit/2 {
			err = fmt.Errorf("close took %v", took)
		}
		return err
	})
}
