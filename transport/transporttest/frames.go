package transporttest

import (
	"fmt"
	"testing"
	"time"

	"github.com/colligo-go/colligo/transport"
)

// sizeList returns the sizes around every boundary up to the largest frame, then some at random.
func sizeList(largest int, seed uint64) []int {
	list := []int{0}
	for n := 1; n <= largest; n *= 8 {
		list = append(list, n-1, n, n+1)
	}
	list = append(list, largest-1, largest, 0, largest, 7)
	for i := range uint64(20) {
		list = append(list, int(Mix(seed, i)%uint64(min(largest, 100_000)+1)))
	}
	for i, n := range list {
		list[i] = min(n, largest)
	}
	return list
}

// sizes sends every size both ways at once on two lanes, with frames as large as the medium likes.
func sizes(t *testing.T, open Opener, mode Mode) {
	start(t, open, 2, nil, func(_ int, c *transport.Config) { c.Lanes = 2 }).exchangeSizes(t, mode)
}

func sizesChecked(t *testing.T, open Opener) {
	checked := func(_ int, c *transport.Config) { c.Checksum, c.FrameBytes = true, 1<<16 }
	start(t, open, 2, nil, checked).exchangeSizes(t, Mixed)
}

// exchangeSizes sends every size between ranks 0 and 1, both ways at once on two lanes.
func (k *cluster) exchangeSizes(t *testing.T, mode Mode) {
	k.together(t, func(rank int, m transport.Mesh) error {
		if rank > 1 {
			return nil
		}
		list := sizeList(m.Link(1-rank).MaxFrame(), 1)
		var flows []Flow
		for lane := range 2 {
			out, in := k.stream(rank, 1-rank, lane, list...), k.stream(1-rank, rank, lane, list...)
			flows = append(flows, out.Sender(m, mode), in.Receiver(m, mode))
		}
		return Drive(m, limit, flows...)
	})
}

// slots checks what Slot returns. It has the length asked for or the largest frame, and is the same memory until it is sent.
// A prefix of it may be sent.
func slots(t *testing.T, open Opener) {
	k := start(t, open, 2, nil, small)
	s := k.stream(0, 1, 1, 100, 1, 50, 60)
	k.together(t, func(rank int, m transport.Mesh) error {
		if rank == 1 {
			return Drive(m, limit, s.Receiver(m, InSlot))
		}
		flow := s.Sender(m, Plain)
		return Drive(m, limit, &prefixes{Sender: flow})
	})
}

// prefixes is a Sender that asks for slots longer than what it sends.
type prefixes struct{ *Sender }

func (f *prefixes) Step() (moved, done bool, err error) {
	frame := f.Sender.Frame
	if f.Sender.ready {
		return f.Sender.Step()
	}
	f.Sender.Frame = func(i int) (transport.Header, []byte) {
		h, p := frame(i)
		slot := f.Link.Slot(f.Lane, 1<<30)
		if slot == nil {
			return h, p
		}
		if len(slot) != f.Link.MaxFrame() {
			err = fmt.Errorf("slot of %d bytes, one frame holds %d", len(slot), f.Link.MaxFrame())
		}
		if again := f.Link.Slot(f.Lane, 10); len(again) != 10 || &again[0] != &slot[0] {
			err = fmt.Errorf("a slot that was not sent is not the same when asked for again")
		}
		return h, slot[:copy(slot, p)]
	}
	moved, done, sendErr := f.Sender.Step()
	f.Sender.Frame = frame
	if sendErr != nil {
		err = sendErr
	}
	return moved, done, err
}

// sendersMemory overwrites header and payload as soon as a frame is taken, and sees that the link changed neither.
func sendersMemory(t *testing.T, open Opener) {
	k := start(t, open, 2, nil, small)
	s := k.stream(0, 1, 0, sizeList(64<<10, 2)...)
	k.together(t, func(rank int, m transport.Mesh) error {
		if rank == 1 {
			return Drive(m, limit, s.Receiver(m, Mixed))
		}
		h, p := new(transport.Header), make([]byte, 64<<10)
		for i, n := range s.Sizes {
			*h = s.Header(i)
			s.Fill(i, p[:n])
			if err := sendOne(m, 1, h, p[:n]); err != nil {
				return fmt.Errorf("frame %d: %w", i, err)
			}
			if err := s.Check(i, h, p[:n]); err != nil {
				return fmt.Errorf("the link changed what was sent: %w", err)
			}
			clear(p[:n])
			*h = transport.Header{}
		}
		return nil
	})
}

// sendOne offers one frame until it is taken.
func sendOne(m transport.Mesh, peer int, h *transport.Header, p []byte) error {
	until := time.Now().Add(limit)
	for idle := 1; ; idle++ {
		ok, err := m.Link(peer).Send(h, p)
		if err != nil || ok {
			return err
		}
		if !time.Now().Before(until) {
			return fmt.Errorf("%d bytes to rank %d on lane %d not taken after %v", len(p), peer, h.Lane, limit)
		}
		m.Wait(idle, until)
	}
}

// pingPong sends one small frame to and fro. Now and then a rank rests first, so that its peer falls asleep: a wake-up
// that is lost shows as the limit passing.
func pingPong(t *testing.T, open Opener) {
	const rounds = 500
	k := start(t, open, 2, nil, small)
	k.together(t, func(rank int, m transport.Mesh) error {
		for i := range rounds {
			out, in := k.stream(rank, 1-rank, i%4, i%100), k.stream(1-rank, rank, i%4, i%100)
			first, then := Flow(out.Sender(m, Mixed)), Flow(in.Receiver(m, Mixed))
			if rank == 1 {
				first, then = then, first
			}
			if Mix(uint64(rank), uint64(i))%50 == 0 {
				time.Sleep(time.Duration(Mix(uint64(i))%2000) * time.Microsecond)
			}
			if err := Drive(m, limit, first); err != nil {
				return fmt.Errorf("round %d: %w", i, err)
			}
			if err := Drive(m, limit, then); err != nil {
				return fmt.Errorf("round %d: %w", i, err)
			}
		}
		return nil
	})
}
