package shm

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/transport"
)

func TestLineIsTwoCacheLines(t *testing.T) {
	require.EqualValues(t, lineSize, unsafe.Sizeof(line{}))
	require.EqualValues(t, 56, unsafe.Offsetof(line{}.tail))
	require.LessOrEqual(t, unsafe.Sizeof(door{}), uintptr(cacheLine))
}

// TestPayloadsInCacheLines holds that a payload that fits into one cache line of its message does not lie in both.
func TestPayloadsInCacheLines(t *testing.T) {
	l := new(line)
	for n := 1; n <= inlineBytes; n++ {
		p := l.payload(n)
		require.Len(t, p, n)
		from := uintptr(unsafe.Pointer(&p[0])) - uintptr(unsafe.Pointer(l))
		require.GreaterOrEqual(t, from, unsafe.Offsetof(l.tail))
		require.LessOrEqual(t, from+uintptr(n), unsafe.Sizeof(*l))
		both := from/cacheLine != (from+uintptr(n)-1)/cacheLine
		require.Equal(t, n > cacheLine, both, "%d bytes at %d", n, from)
	}
}

func TestLayoutStaysWithinTheLimit(t *testing.T) {
	for _, size := range []int{1, 2, 8, 64, 256, 1024} {
		for _, lanes := range []int{1, 2, 8, 64} {
			l, err := newLayout(&transport.Config{Size: size, Lanes: lanes})
			require.NoError(t, err)
			require.GreaterOrEqual(t, l.slots, minSlots)
			require.GreaterOrEqual(t, l.frame, minFrame)
			require.Zero(t, l.frame%64)
			require.True(t, l.segment() <= segmentLimit || l.slots == minSlots && l.frame == minFrame,
				"size %d, lanes %d: %d bytes in %d slots of %d", size, lanes, l.segment(), l.slots, l.frame)
		}
	}
}

func TestLayoutIsWhatTheConfigurationSays(t *testing.T) {
	l, err := newLayout(&transport.Config{Size: 1024, Lanes: 8, Slots: 3, FrameBytes: 192})
	require.NoError(t, err)
	require.Equal(t, 3, l.slots)
	require.Equal(t, 192, l.frame)
	_, err = newLayout(&transport.Config{Size: 2, Lanes: 1, Slots: -1})
	require.Error(t, err)
}

// Every byte of every ring is written with a number of its own; nothing overlaps and all is inside of the segment.
func TestRegionsDoNotOverlap(t *testing.T) {
	l, err := newLayout(&transport.Config{Size: 4, Lanes: 3, Slots: 3, FrameBytes: 192})
	require.NoError(t, err)
	const owner = 2
	all := make([]byte, l.segment())
	claim := func(b []byte) {
		for i := range b {
			require.Zero(t, b[i], "claimed twice")
			b[i] = 1
		}
	}
	claim(all[:unsafe.Sizeof(door{})])
	for _, sender := range []int{0, 1, 3} {
		region := all[l.offset(owner, sender):][:l.region()]
		require.Zero(t, l.offset(owner, sender)%int64(l.page))
		for lane := range l.lanes {
			r := l.ring(all[:l.head()], region, place(owner, sender), lane)
			require.Zero(t, uintptr(unsafe.Pointer(&r.body[0]))%64-uintptr(unsafe.Pointer(&all[0]))%64)
			claim(unsafe.Slice((*byte)(unsafe.Pointer(r.credit)), lineSize))
			for i := range l.lines {
				claim(unsafe.Slice((*byte)(unsafe.Pointer(r.lines.at(i))), lineSize))
			}
			claim(r.body)
		}
	}
}

// The credits and the first two lines of up to nine ranks lie on the doorbell's page. With more ranks, a sender's are less than a page
// apart. No two ranks write into the same pair of cache lines.
func TestFirstLinesShareAPage(t *testing.T) {
	for _, size := range []int{2, 3, 9, 10, 64} {
		l, err := newLayout(&transport.Config{Size: size, Lanes: 9})
		require.NoError(t, err)
		head, region, users := make([]byte, l.head()), make([]byte, l.region()), map[uintptr]bool{}
		from := uintptr(unsafe.Pointer(&head[0]))
		for sender := range size - 1 {
			for lane := range l.lanes {
				r := l.ring(head, region, sender, lane)
				require.Same(t, &r.lines.memory[len(r.lines.memory)-lineSize], (*byte)(unsafe.Pointer(r.lines.at(l.lines-1))), "the last line")
				at := []uintptr{uintptr(unsafe.Pointer(r.credit)) - from}
				for i := range l.lines {
					at = append(at, uintptr(unsafe.Pointer(r.lines.at(i)))-from)
				}
				for _, a := range at {
					require.GreaterOrEqual(t, a, uintptr(cacheLine))
					require.False(t, users[a/lineSize], "size %d, sender %d, lane %d", size, sender, lane)
					users[a/lineSize] = true
				}
				if lane == 0 && size <= blockPeers+1 {
					require.Less(t, at[2], uintptr(l.page))
				}
				if lane == 0 {
					require.LessOrEqual(t, at[2]-at[0], uintptr(l.page))
				}
			}
		}
	}
}

// Each rank's answer is a bit of its own behind the doorbell, in the head.
func TestAnswersAreApart(t *testing.T) {
	for _, size := range []int{2, 4, 33, 1024, 40_000} {
		l, err := newLayout(&transport.Config{Size: size, Lanes: 1, Slots: 2, FrameBytes: 1024})
		require.NoError(t, err)
		head := make([]byte, l.head())
		require.Equal(t, int64(len(head)), l.offset(1, 0))
		for _, rank := range []int{0, 1, size / 2, size - 1} {
			a := l.answer(head, rank)
			require.False(t, a.given())
			a.give()
			require.True(t, a.given())
			a.give()
			for other := range size {
				if l.answer(head, other).given() != (other == rank) {
					t.Fatalf("the answer of rank %d of %d is that of rank %d", rank, size, other)
				}
			}
			require.Equal(t, make([]byte, cacheLine), head[:cacheLine], "the doorbell is not touched")
			clear(head)
		}
	}
}

// By default there are more lines than long slots, and each has a short one. Nothing of any lane overlaps.
func TestShortSlots(t *testing.T) {
	l, err := newLayout(&transport.Config{Size: 2, Lanes: 3})
	require.NoError(t, err)
	require.Equal(t, []int{defaultLines, shortBytes, defaultSlots, defaultFrame}, []int{l.lines, l.short(), l.slots, l.frame})
	head, region := make([]byte, l.head()), make([]byte, l.region())
	for lane := range l.lanes {
		r := l.ring(head, region, 0, lane)
		require.Len(t, r.shorts, l.lines*shortBytes)
		require.Len(t, r.body, l.slots*l.frame)
		for _, b := range [][]byte{unsafe.Slice((*byte)(unsafe.Pointer(r.credit)), lineSize),
			r.lines.memory, r.shorts, r.body} {
			for i := range b {
				if b[i] != 0 {
					t.Fatalf("lane %d: byte %d is claimed twice", lane, i)
				}
				b[i] = 1
			}
		}
	}

	given, err := newLayout(&transport.Config{Size: 2, Lanes: 3, Slots: 8})
	require.NoError(t, err)
	require.Equal(t, []int{8, 0}, []int{given.lines, given.short()}, "as many frames of credit as configured")
	large, err := newLayout(&transport.Config{Size: 1024, Lanes: 8})
	require.NoError(t, err)
	require.Equal(t, large.slots, large.lines, "no short slots where memory is short")
}
