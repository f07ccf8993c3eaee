package shm

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/transport"
)

// pair opens two ranks with small rings and returns the link from rank 0 to rank 1 and the one that receives from it.
func pair(t *testing.T, change func(*transport.Config)) (out, in *link) {
	meshes := open(t, 2, func(_ int, c *transport.Config) {
		c.Slots, c.FrameBytes = 3, 256
		if change != nil {
			change(c)
		}
	})
	return meshes[0].Link(1).(*link), meshes[1].Link(0).(*link)
}

func put(t *testing.T, l *link, lane int, p []byte) {
	t.Helper()
	ok, err := l.Send(&transport.Header{Lane: uint16(lane), Len: uint32(len(p))}, p)
	require.NoError(t, err)
	require.True(t, ok)
}

func TestHeaderArrivesAsSent(t *testing.T) {
	out, in := pair(t, nil)
	h := transport.Header{
		Call: transport.Call{Group: 1 << 31, Coll: 2, DType: 3, Op: 4, Seq: 5 << 40, Count: 6 << 40, Root: -7},
		Lane: 3, Flags: 1 << 9, Step: 8 << 24, Len: 9, Total: 10 << 40}
	ok, err := out.Send(&h, []byte("123456789"))
	require.NoError(t, err)
	require.True(t, ok)
	got, err := in.Head(3)
	require.NoError(t, err)
	require.Equal(t, h, *got)
}

func TestSlotIsNotCopied(t *testing.T) {
	out, in := pair(t, nil)
	for _, n := range []int{1, 8, 9, 256} {
		for range 4 {
			p := out.Slot(0, n)
			require.Len(t, p, n)
			for i := range p {
				p[i] = byte(n)
			}
			put(t, out, 0, p)
			_, err := in.Head(0)
			require.NoError(t, err)
			got, full, err := in.Body(0, nil)
			require.NoError(t, err)
			require.True(t, full)
			require.Equal(t, bytes.Repeat([]byte{byte(n)}, n), got)
			in.Release(0)
		}
	}
	require.Len(t, out.Slot(0, 1000), 256)
}

// A prefix of a slot that is short enough to travel in the line is not where the slot was.
func TestPrefixOfASlot(t *testing.T) {
	out, in := pair(t, nil)
	p := out.Slot(0, 100)
	copy(p, "abcdefghij")
	put(t, out, 0, p[:5])
	_, err := in.Head(0)
	require.NoError(t, err)
	got, _, err := in.Body(0, make([]byte, 5))
	require.NoError(t, err)
	require.Equal(t, "abcde", string(got))
}

func TestUnpublishedSlotIsNoFrame(t *testing.T) {
	out, in := pair(t, nil)
	copy(out.Slot(0, 256), "half written")
	out.out[0].lines.at(0).write(&transport.Header{Len: 256}, inSlot)
	h, err := in.Head(0)
	require.NoError(t, err)
	require.Nil(t, h)
}

// Slots that a hostile peer may have written into this rank's memory.
func TestCorruptSlots(t *testing.T) {
	for name, spoil := range map[string]func(*sender){
		"turn far ahead":      func(s *sender) { s.lines.at(0).turn.Store(4) },
		"turn of the past":    func(s *sender) { s.lines.at(0).turn.Store(1 << 63) },
		"length":              func(s *sender) { s.lines.at(0).length = 257; s.lines.at(0).turn.Store(1) },
		"length beyond int32": func(s *sender) { s.lines.at(0).length = 1 << 31; s.lines.at(0).turn.Store(1) },
		"lane":                func(s *sender) { s.lines.at(0).lane = 1; s.lines.at(0).turn.Store(1) },
	} {
		t.Run(name, func(t *testing.T) {
			out, in := pair(t, nil)
			spoil(&out.out[0])
			_, err := in.Head(0)
			require.ErrorIs(t, err, transport.ErrCorrupt)
			require.ErrorContains(t, err, "rank 0: lane 0:")
			_, again := in.Head(1)
			require.Equal(t, err, again, "the same error for ever, on all lanes")
			_, again = in.Send(&transport.Header{}, nil)
			require.Equal(t, err, again)
			require.Nil(t, in.Slot(0, 8))
		})
	}
}

func TestCorruptCredit(t *testing.T) {
	for _, taken := range []uint64{4, 1 << 63} {
		out, in := pair(t, nil)
		for range 3 {
			put(t, out, 0, nil)
		}
		in.in[0].taken.Store(taken)
		_, err := out.Send(&transport.Header{}, nil)
		require.ErrorIs(t, err, transport.ErrCorrupt)
		require.ErrorContains(t, err, "rank 1: lane 0:")
	}
}

func TestChecksumFindsAChangedByte(t *testing.T) {
	for name, spoil := range map[string]func(*sender){
		"payload": func(s *sender) { s.body[1] ^= 1 },
		"header":  func(s *sender) { s.lines.at(0).seq ^= 1 },
		"sum":     func(s *sender) { s.lines.at(0).tail[0] ^= 1 },
	} {
		t.Run(name, func(t *testing.T) {
			out, in := pair(t, func(c *transport.Config) { c.Checksum = true })
			put(t, out, 0, []byte{1, 2, 3})
			spoil(&out.out[0])
			_, err := in.Head(0)
			require.NoError(t, err)
			_, _, err = in.Body(0, nil)
			require.ErrorIs(t, err, transport.ErrCorrupt)
		})
	}
}

func TestNothingAllocates(t *testing.T) {
	for _, checksum := range []bool{false, true} {
		out, in := pair(t, func(c *transport.Config) { c.Checksum = checksum })
		h, big := &transport.Header{Len: 200}, make([]byte, 200)
		require.Zero(t, testing.AllocsPerRun(100, func() {
			_, _ = out.Send(h, big)
			_, _ = in.Head(0)
			_, _, _ = in.Body(0, nil)
			in.Release(0)
			_ = out.Slot(0, 8)
		}), "checksum %t", checksum)
	}
}

// deep opens two ranks with the default lines and slots.
func deep(t *testing.T, change func(*transport.Config)) (out, in *link) {
	meshes := open(t, 2, func(_ int, c *transport.Config) {
		c.Slots, c.FrameBytes = 0, 0
		if change != nil {
			change(c)
		}
	})
	return meshes[0].Link(1).(*link), meshes[1].Link(0).(*link)
}

// A sender may be as many short frames ahead as there are lines. Long ones are bounded by their slots, and leave room for short ones.
func TestShortFramesGoFurtherAhead(t *testing.T) {
	out, in := deep(t, nil)
	try := func(p []byte) bool {
		ok, err := out.Send(&transport.Header{Len: uint32(len(p))}, p)
		require.NoError(t, err)
		return ok
	}
	next := func(n int) {
		t.Helper()
		h, err := in.Head(0)
		require.NoError(t, err)
		require.NotNil(t, h)
		p, full, err := in.Body(0, nil)
		require.NoError(t, err)
		require.True(t, full)
		require.True(t, bytes.Equal(counted(n), p))
		in.Release(0)
	}
	for range 2 * defaultLines {
		for range defaultLines {
			require.True(t, try(counted(shortBytes)))
		}
		require.False(t, try(nil), "no line is left")
		for range defaultLines {
			next(shortBytes)
		}
		long := shortBytes + 1
		for range defaultSlots {
			require.True(t, try(counted(long)))
		}
		require.False(t, try(counted(long)), "no long slot is left")
		require.Nil(t, out.Slot(0, long))
		require.True(t, try(counted(8)))
		require.True(t, try(counted(9)))
		next(long)
		require.True(t, try(counted(long)))
		for range defaultSlots - 1 {
			next(long)
		}
		next(8)
		next(9)
		next(long)
	}
}

// A short payload lies in its line and touches no slot, unless it has a checksum.
func TestShortPayloadsInLines(t *testing.T) {
	for _, summed := range []bool{false, true} {
		out, in := deep(t, func(c *transport.Config) { c.Checksum = summed })
		for _, n := range []int{1, 8, 9, inlineBytes, inlineBytes + 1} {
			put(t, out, 0, counted(n))
			_, err := in.Head(0)
			require.NoError(t, err)
			p, full, err := in.Body(0, nil)
			require.NoError(t, err)
			require.True(t, full)
			require.Equal(t, counted(n), p)
			in.Release(0)
			r := &in.in[0]
			slotted := !bytes.Equal(make([]byte, len(r.shorts)), r.shorts)
			require.Equal(t, summed && n > 1 || n > inlineBytes, slotted, "%d bytes", n) // the one byte is 0
			clear(r.shorts)
		}
	}
}

// Frames of all lengths arrive whole and in order, however they are built, with checksums and without.
func TestLengthsByTurns(t *testing.T) {
	for _, summed := range []bool{false, true} {
		out, in := deep(t, func(c *transport.Config) { c.Checksum = summed })
		lengths := []int{0, 1, 8, 9, inlineBytes, inlineBytes + 1, 512, shortBytes - 1, shortBytes, shortBytes + 1, 3 * shortBytes, defaultFrame}
		random := rand.New(rand.NewPCG(1, 2))
		var ahead []int
		for sent := 0; sent < 2000 || len(ahead) > 0; {
			if n := lengths[random.IntN(len(lengths))]; sent < 2000 && random.IntN(2) == 0 {
				p := counted(n)
				if random.IntN(2) == 0 && n > 0 {
					if slot := out.Slot(0, n+random.IntN(10)); slot != nil {
						copy(slot, p)
						p = slot[:n]
					}
				}
				ok, err := out.Send(&transport.Header{Len: uint32(n)}, p)
				require.NoError(t, err)
				if ok {
					sent, ahead = sent+1, append(ahead, n)
				}
			}
			h, err := in.Head(0)
			require.NoError(t, err)
			if h == nil || random.IntN(3) == 0 {
				continue
			}
			require.EqualValues(t, ahead[0], h.Len)
			p, full, err := in.Body(0, nil)
			require.NoError(t, err)
			require.True(t, full)
			require.True(t, bytes.Equal(counted(ahead[0]), p), "frame of %d bytes", ahead[0])
			in.Release(0)
			ahead = ahead[1:]
		}
	}
}

// A line of a hostile peer may claim a payload that its short slot cannot hold.
func TestShortSlotTooShort(t *testing.T) {
	out, in := deep(t, nil)
	put(t, out, 0, counted(100))
	out.out[0].lines.at(0).length = shortBytes + 1
	_, err := in.Head(0)
	require.ErrorIs(t, err, transport.ErrCorrupt)

	out, in = pair(t, nil) // without short slots
	put(t, out, 0, counted(8))
	out.out[0].lines.at(0).flags |= transport.FlagChecksum
	_, err = in.Head(0)
	require.NoError(t, err)
	_, _, err = in.Body(0, nil)
	require.ErrorIs(t, err, transport.ErrCorrupt)
}
