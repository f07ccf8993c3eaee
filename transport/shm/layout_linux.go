package shm

import (
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"github.com/colligo-go/colligo/transport"
)

const (
	cacheLine    = 64
	lineSize     = 2 * cacheLine // CPUs fetch cache lines in pairs
	defaultLines = 32
	shortBytes   = 4 << 10
	defaultSlots = 8
	defaultFrame = 128 << 10
	minSlots     = 2
	minFrame     = 1 << 10
	segmentLimit = 256 << 20 // bytes of a segment unless the configuration says otherwise
	maxSlots     = 1 << 16
	blockPeers   = 8 // peers of a block, whose lines lie among each other
)

// layout says where things are in a segment. All ranks of a group must have the same one.
//
//	the head              the doorbell (a cache line), that of a lane (16 bytes), one bit for each rank whose memory the owner can read, credits and lines, padding to a page
//	one region per peer   short slots, long slots, each padded to a page
//
// Credits and lines lie lane by lane. Each lane has a block for every eight peers, and a block lies row by row. The first row has the
// credit of each of its peers, the next the first line of each, and so on. So the first frames of a new group touch a page or two for
// eight peers. For up to nine ranks it is just the doorbell's. The first touch of a page costs more than a small operation.
type layout struct {
	size, lanes, slots, frame int
	lines                     int // of a lane, each a frame; there are no short slots if it has as many long ones
	page                      int
}

// newLayout chooses slots and frame size: as configured, or the defaults, smaller for groups that are too large for them.
func newLayout(c *transport.Config) (layout, error) {
	l := layout{size: c.Size, lanes: c.Lanes, slots: c.Slots, frame: c.FrameBytes, page: os.Getpagesize()}
	if l.slots < 0 || l.slots > maxSlots {
		return l, fmt.Errorf("shm: %d slots of a lane, allowed are up to %d", l.slots, maxSlots)
	}
	if l.slots == 0 {
		l.slots = defaultSlots
	}
	if l.frame == 0 {
		l.frame = defaultFrame
	}
	for l.setLines(c); l.segment() > segmentLimit && l.shrink(c); l.setLines(c) {
	}
	return l, nil
}

// setLines chooses the lines of a lane. There are as many as slots if those are configured. Else lines and short slots take half of the
// long slots' bytes at most. So a sender may be many short frames ahead of its receiver, which spares switches where ranks share cores.
// A short slot is large so that the next one does not lie where the CPU fetches memory ahead.
func (l *layout) setLines(c *transport.Config) {
	if l.lines = l.slots; c.Slots != 0 {
		return
	}
	for n := defaultLines; n > l.slots; n /= 2 {
		if n*(lineSize+shortBytes) <= l.slots*l.frame/2 {
			l.lines = n
			return
		}
	}
}

// short is the bytes of a short slot, 0 if there are none.
func (l *layout) short() int {
	if l.lines == l.slots {
		return 0
	}
	return shortBytes
}

// shrink halves what the configuration leaves open: slots down to half the default first, then payloads, then slots.
func (l *layout) shrink(c *transport.Config) bool {
	switch {
	case c.Slots == 0 && l.slots > defaultSlots/2:
		l.slots /= 2
	case c.FrameBytes == 0 && l.frame > minFrame:
		l.frame /= 2
	case c.Slots == 0 && l.slots > minSlots:
		l.slots /= 2
	default:
		return false
	}
	return true
}

// head is the bytes before the regions.
func (l *layout) head() int { return roundUp(l.block(l.lanes, 0), l.page) }

// row is the bytes of a row of a block.
func (l *layout) row() int { return min(l.size-1, blockPeers) * lineSize }

// block is where a block of a lane begins in a head.
func (l *layout) block(lane, i int) int {
	blocks := roundUp(l.size-1, blockPeers) / blockPeers
	return roundUp(answersAt+(l.size+31)/32*4, lineSize) + (lane*blocks+i)*(1+l.lines)*l.row()
}

// longs is where the long slots begin in a region.
func (l *layout) longs() int { return roundUp(l.lanes*l.lines*l.short(), l.page) }

// region is the bytes of the rings of one peer, whole pages.
func (l *layout) region() int { return l.longs() + roundUp(l.lanes*l.slots*l.frame, l.page) }

// segment is the bytes of the whole.
func (l *layout) segment() int64 { return int64(l.head()) + int64(l.size-1)*int64(l.region()) }

// space is the bytes of all that a rank maps: its own segment, and of each peer's the head and a region.
func (l *layout) space() int64 { return l.segment() + int64(l.size-1)*int64(l.head()+l.region()) }

// place counts the peers of owner before a sender.
func place(owner, sender int) int {
	if sender > owner {
		sender--
	}
	return sender
}

// offset is where in the segment of owner the region of the frames from sender begins.
func (l *layout) offset(owner, sender int) int64 {
	return int64(l.head()) + int64(place(owner, sender))*int64(l.region())
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }

// credit is the line of a lane that the receiver writes and the sender reads.
type credit struct {
	taken  atomic.Uint64   // frames that the receiver has given back
	unread atomic.Uint64   // number of the last frame that was to be read in the sender's memory and could not be
	got    atomic.Uint64   // bytes that were read of that frame
	worked [2]atomic.Int64 // nanoseconds for which the receiver's core worked on payloads inSlotTimed and inSlotOther
}

// Where a head has the doorbells and the answers.
const (
	secondAt  = cacheLine
	answersAt = secondAt + 16
)

// doorAt finds a rank's doorbell in a head, or with 1 that of the lane which the rank lends.
func doorAt(head []byte, i int) *door { return (*door)(unsafe.Pointer(&head[i*secondAt])) }

// answer says whether the owner of a segment can read the memory of one rank: a bit that the owner sets and that rank reads.
type answer struct {
	word *atomic.Uint32
	bit  uint32
}

// answer finds that of a rank in a head.
func (l *layout) answer(head []byte, rank int) answer {
	return answer{(*atomic.Uint32)(unsafe.Pointer(&head[answersAt+rank/32*4])), 1 << (rank % 32)}
}

// give says that the rank's memory can be read.
func (a answer) give() { a.word.Or(a.bit) }

// given reports whether the owner has said so.
func (a answer) given() bool { return a.word.Load()&a.bit != 0 }

// ring is what a sender has of a mapped segment for one lane. Sender and receiver have the same view of it.
type ring struct {
	*credit
	lines        lines
	shorts       []byte // a short slot for each line, or none
	body         []byte // long slots
	short, frame int    // bytes of a short and of a long slot
}

// ring cuts a sender's ring for one lane out of a head and the sender's region. The sender is given by its place among the peers.
func (l *layout) ring(head, region []byte, place, lane int) ring {
	first := l.block(lane, place/blockPeers) + place%blockPeers*lineSize
	return ring{
		credit: (*credit)(unsafe.Pointer(&head[first])),
		lines:  lines{part(head, first+l.row(), 0, (l.lines-1)*l.row()+lineSize), l.row(), l.lines},
		shorts: part(region, 0, lane, l.lines*l.short()),
		body:   part(region, l.longs(), lane, l.slots*l.frame),
		short:  l.short(),
		frame:  l.frame,
	}
}

// part returns a lane's share of n bytes of what begins at an offset of a mapping.
func part(mapping []byte, from, lane, n int) []byte {
	from += lane * n
	return mapping[from : from+n : from+n]
}
