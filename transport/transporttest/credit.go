package transporttest

import (
	"fmt"
	"testing"
	"time"

	"github.com/colligo-go/colligo/transport"
)

// firstFrame sends one frame on every lane to every peer, from all ranks, before any rank looks at what came.
func firstFrame(t *testing.T, open Opener) {
	const size, lanes = 3, 4
	k := start(t, open, size, nil, small)
	// flows asks for one flow for each lane and peer of a rank.
	flows := func(rank int, one func(peer, lane int) Flow) (list []Flow) {
		for i := range (size - 1) * lanes {
			list = append(list, one((rank+1+i/lanes)%size, i%lanes))
		}
		return list
	}
	k.together(t, func(rank int, m transport.Mesh) error {
		return Drive(m, limit, flows(rank, func(peer, lane int) Flow { return k.stream(rank, peer, lane, 1024).Sender(m, Plain) })...)
	})
	k.together(t, func(rank int, m transport.Mesh) error {
		return Drive(m, limit, flows(rank, func(peer, lane int) Flow { return k.stream(peer, rank, lane, 1024).Receiver(m, Plain) })...)
	})
}

const (
	refusedFor = 50 * time.Millisecond // a lane that takes nothing for so long is full
	flood      = 64 << 20              // bytes that no medium may buffer for one lane
)

// fill sends frames of the stream until the lane is full; at least one and not all must be taken.
func fill(m transport.Mesh, s *Sender) error {
	until := time.Now().Add(refusedFor)
	for idle := 1; ; idle++ {
		moved, done, err := s.Step()
		switch {
		case err != nil:
			return fmt.Errorf("%v: %w", s, err)
		case done:
			return fmt.Errorf("lane %d took %d frames that nobody received; they should have been refused", s.Lane, s.Count)
		case moved:
			idle, until = 0, time.Now().Add(refusedFor)
		case s.Sent() == 0:
			return fmt.Errorf("lane %d took no frame", s.Lane)
		case !time.Now().Before(until):
			return nil
		}
		m.Wait(idle, until)
	}
}

// flooding returns a stream of more frames of the given size than any lane may hold.
func (k *cluster) flooding(src, dst, lane, bytes int) *Stream {
	s := k.stream(src, dst, lane, make([]int, flood/bytes)...)
	for i := range s.Sizes {
		s.Sizes[i] = bytes
	}
	return s
}

// credit fills a lane, lets the sender sleep, and sees every frame arrive once the peer takes them.
func credit(t *testing.T, open Opener) {
	for _, bytes := range []int{64 << 10, 1 << 10} {
		k := start(t, open, 2, nil, small)
		full := make(chan struct{})
		s := k.flooding(0, 1, 1, bytes)
		k.together(t, func(rank int, m transport.Mesh) error {
			if rank == 1 {
				<-full
				time.Sleep(20 * time.Millisecond)
				r := s.Receiver(m, InSlot)
				r.Count = min(r.Count, 4096)
				return Drive(m, limit, r)
			}
			flow := s.Sender(m, Plain)
			err := fill(m, flow)
			flow.Count = min(flow.Count, max(4096, flow.Sent()))
			close(full)
			if err != nil {
				return err
			}
			return Drive(m, limit, flow)
		})
	}
}

// lanes fills one lane in both directions, and sees frames on the others and notes pass it.
func lanes(t *testing.T, open Opener) {
	box := newInbox(2)
	k := start(t, open, 2, box, small)
	stuck := make([]*Sender, 2)
	k.together(t, func(rank int, m transport.Mesh) error {
		stuck[rank] = k.flooding(rank, 1-rank, 2, 64<<10).Sender(m, Plain)
		return fill(m, stuck[rank])
	})
	k.together(t, func(rank int, m transport.Mesh) error {
		var flows []Flow
		for _, lane := range []int{0, 1, 3} {
			list := sizeList(64<<10, uint64(lane))
			out, in := k.stream(rank, 1-rank, lane, list...), k.stream(1-rank, rank, lane, list...)
			flows = append(flows, out.Sender(m, Mixed), in.Receiver(m, Mixed))
		}
		if err := Drive(m, limit, flows...); err != nil {
			return err
		}
		return m.Notify(1-rank, note(rank, 1-rank, 0, 100))
	})
	for rank := range 2 {
		if err := box.expect(rank, map[int]int{1 - rank: 1}); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range stuck {
		s.Count = s.Sent() + 1
	}
	k.together(t, func(rank int, m transport.Mesh) error {
		in := k.flooding(1-rank, rank, 2, 64<<10).Receiver(m, Mixed)
		in.Count = stuck[1-rank].Count
		return Drive(m, limit, stuck[rank], in)
	})
}
