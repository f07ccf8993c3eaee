package transporttest

import (
	"encoding/binary"
	"fmt"

	"github.com/colligo-go/colligo/transport"
)

// Mix hashes words into one (the finaliser of splitmix64 after each), so that tests can derive choices from a seed.
func Mix(words ...uint64) uint64 {
	z := uint64(0)
	for _, w := range words {
		z += w + 0x9e3779b97f4a7c15
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		z ^= z >> 31
	}
	return z
}

// Stream is a series of frames from one rank to another on one lane. Every byte of a payload and every field of a header
// follows from Src, Dst, Lane, the frame's index and the position. So a misplaced frame or byte shows.
type Stream struct {
	Group          uint32
	Src, Dst, Lane int
	Sizes          []int // bytes of each payload
}

func (s *Stream) seed(i int) uint64 {
	return Mix(uint64(s.Group), uint64(s.Src), uint64(s.Dst), uint64(s.Lane), uint64(i))
}

// Header returns what frame i carries before its payload.
func (s *Stream) Header(i int) transport.Header {
	x := s.seed(i)
	return transport.Header{
		Call: transport.Call{Group: s.Group, Coll: uint8(x), DType: uint8(x >> 8), Op: uint8(x >> 16),
			Seq: Mix(x, 1), Count: Mix(x, 2), Root: int32(Mix(x, 3))},
		Lane: uint16(s.Lane), Step: uint32(i), Len: uint32(s.Sizes[i]), Total: Mix(x, 4),
	}
}

// Fill writes the payload of frame i into p.
func (s *Stream) Fill(i int, p []byte) {
	x := s.seed(i)
	for ; len(p) >= 8; p = p[8:] {
		binary.LittleEndian.PutUint64(p, x)
		x += 0x9e3779b97f4a7c15
	}
	for k := range p {
		p[k] = byte(x >> (8 * k))
	}
}

// Check says how frame i as it arrived differs from what was sent, nil if it does not.
func (s *Stream) Check(i int, h *transport.Header, p []byte) error {
	got, want := *h, s.Header(i)
	got.Flags &^= transport.FlagCompressed | transport.FlagChecksum
	if got != want {
		return fmt.Errorf("frame %d has header %+v, sent was %+v", i, got, want)
	}
	if len(p) != s.Sizes[i] {
		return fmt.Errorf("frame %d has %d bytes, sent were %d", i, len(p), s.Sizes[i])
	}
	x := s.seed(i)
	k := 0
	for ; len(p)-k >= 8; k += 8 {
		if got := binary.LittleEndian.Uint64(p[k:]); got != x {
			return fmt.Errorf("frame %d of %d bytes has word %#016x at byte %d, sent was %#016x", i, len(p), got, k, x)
		}
		x += 0x9e3779b97f4a7c15
	}
	for j := range p[k:] {
		if want := byte(x >> (8 * j)); p[k+j] != want {
			return fmt.Errorf("frame %d of %d bytes has %#02x at byte %d, sent was %#02x", i, len(p), p[k+j], k+j, want)
		}
	}
	return nil
}

// Mode is how a stream uses its link's memory.
type Mode int

// Modes of a stream. Mixed chooses for each frame by its hash.
const (
	Plain  Mode = iota // send from and receive into the caller's memory
	InSlot             // build in a slot where there is one, read in the link's memory
	Mixed
)

func (m Mode) own(x uint64) bool { return m == InSlot || m == Mixed && x&1 == 1 }

// Sender returns the flow that sends the stream over a mesh of rank Src.
func (s *Stream) Sender(m transport.Mesh, mode Mode) *Sender {
	return &Sender{Link: m.Link(s.Dst), Peer: s.Dst, Lane: s.Lane, Count: len(s.Sizes),
		Slot: func(i int) bool { return mode.own(Mix(s.seed(i), 5)) },
		Frame: func(i int) (transport.Header, []byte) {
			p := make([]byte, s.Sizes[i])
			s.Fill(i, p)
			return s.Header(i), p
		}}
}

// Receiver returns the flow that takes the stream off a mesh of rank Dst and checks every frame.
func (s *Stream) Receiver(m transport.Mesh, mode Mode) *Receiver {
	return &Receiver{Link: m.Link(s.Src), Peer: s.Src, Lane: s.Lane, Count: len(s.Sizes), Take: s.Check,
		Into: func(i int, h *transport.Header) []byte {
			if mode.own(Mix(s.seed(i), 6)) || int(h.Len) != s.Sizes[i] {
				return nil
			}
			return make([]byte, h.Len)
		}}
}
