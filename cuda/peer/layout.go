package peer

import (
	"fmt"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/kernels"
)

const (
	maxRanks  = 8 // as in the kernels
	tileDepth = 4 // tiles of one pair in flight, as in the kernels
	maxBlocks = 256
	lanes     = 2 // of rings
	ringSlots = 2 // of a lane
	mailSlots = 2 // of a mailbox
	testBytes = 1 << 10

	largePage   = 2 << 20 // of device memory; copies between processes are slower where a mapping ends within one
	rowSlotMost = 9 << 19 // has room for 4 MiB of data
)

// layout is where things lie in a heap, in bytes from its beginning, and how large they are. All ranks compute the same.
//
//	state     counters of this rank's kernels
//	flags     flag words of the tile kernels, then the marks of the direct ones
//	words     flag words that streams wait for
//	test      what the self-test receives from each rank, then what it sends to each
//	packets   two halves of one slot for each rank
//	rows      the same for rows
//	tiles     for each block, phase and peer a circle of tiles
//	ring      for each lane a circle of slots, filled by the rank before this one
//	mail      for each sending rank a circle of slots
type layout struct {
	size                                                        int
	packetSlot, rowSlot, tileSlot, ringSlot, mailSlot           int
	state, flags, words, test, packets, rows, tiles, ring, mail int
	bytes                                                       int
}

// newLayout shares out at most memory bytes among the parts for a group of the given size.
func newLayout(size, memory int) (layout, error) {
	l := layout{size: size}
	memory -= 64 << 10 // the small parts, and the ends of pages
	l.packetSlot = down(min(memory/8/(2*size), 1<<20), 4<<10)
	l.rowSlot = down(min(memory*3/16/(2*size), rowSlotMost), 2*kernels.RowQuad)
	circles := maxBlocks * 2 * max(size-1, 1)
	l.tileSlot = down(min(memory*10/16/(circles*tileDepth), 32<<10), 1<<10)
	if l.tileSlot > 4<<10 {
		l.tileSlot = down(l.tileSlot, 4<<10) // whole rounds of 256 threads
	}
	l.mailSlot = down(min(memory/16/(size*mailSlots), 2<<20), 4<<10)
	rest := memory - 2*size*l.packetSlot - kernels.RowBytes(size, l.rowSlot) - kernels.TileBytes(size, l.tileSlot, maxBlocks) - size*mailSlots*l.mailSlot
	l.ringSlot = down(rest/(lanes*ringSlots), 64<<10)
	if l.ringSlot > 1<<20 {
		l.ringSlot = down(l.ringSlot, 1<<20)
	}
	if l.packetSlot < 4<<10 || l.tileSlot < 1<<10 || l.ringSlot < 64<<10 || l.mailSlot < 4<<10 {
		return l, fmt.Errorf("%d bytes of heap, less the small parts, are too few for %d ranks", memory, size)
	}
	l.place()
	return l, nil
}

func (l *layout) place() {
	next := 0
	take := func(at *int, n int) {
		*at = next
		next += (n + 4095) &^ 4095
	}
	take(&l.state, 64+4*maxBlocks*maxRanks)
	take(&l.flags, kernels.FlagBytes(maxBlocks)+kernels.MarkBytes(maxBlocks))
	take(&l.words, 4*(l.numWords()+l.numTags()))
	take(&l.test, 2*l.size*testBytes)
	take(&l.packets, 2*l.size*l.packetSlot)
	take(&l.rows, kernels.RowBytes(l.size, l.rowSlot))
	take(&l.tiles, kernels.TileBytes(l.size, l.tileSlot, maxBlocks))
	take(&l.ring, lanes*ringSlots*l.ringSlot)
	take(&l.mail, l.size*mailSlots*l.mailSlot)
	l.bytes = up(next, largePage)
}

// Words. A slot that one rank fills and another empties has two: arrived, with the slot, is set by the sender; free, on
// the sender, is set by the receiver. Both are 0 or 1, and reset by the rank that waited. free begins as 1.
func (l *layout) numWords() int { return 2 * (lanes*ringSlots + l.size*mailSlots) }

func (l *layout) arrivedWords() int { return l.words }
func (l *layout) freeWords() int    { return l.words + 4*l.numWords()/2 }

// ringAt returns the places of a lane's slot: its data, its arrived word, and its free word.
func (l *layout) ringAt(lane, slot int) (data, arrived, free int) {
	i := lane*ringSlots + slot
	return l.ring + i*l.ringSlot, l.arrivedWords() + 4*i, l.freeWords() + 4*i
}

// mailAt returns the places of a slot of the mailbox that rank from fills on rank to: data and arrived word on to, free
// word on from.
func (l *layout) mailAt(from, to, slot int) (data, arrived, free int) {
	in, out := from*mailSlots+slot, to*mailSlots+slot
	return l.mail + in*l.mailSlot, l.arrivedWords() + 4*(lanes*ringSlots+in), l.freeWords() + 4*(lanes*ringSlots+out)
}

// numTags counts the words, behind the others, that say what has arrived in a mailbox. See mailTags.
func (l *layout) numTags() int { return 2 * l.size * mailSlots }

// mailTags returns the places, on the receiving rank, of the words check and label of a slot that rank from fills.
func (l *layout) mailTags(from, slot int) (check, label int) {
	at := l.words + 4*(l.numWords()+2*(from*mailSlots+slot))
	return at, at + 4
}

// String says how large the parts are.
func (l *layout) String() string {
	f := func(n int) string { return colligo.FormatBytes(int64(n)) }
	return fmt.Sprintf("heap %s: packets %s, rows %s, tiles %s (%d blocks of %s), ring %d lanes of %d × %s, mailboxes %s",
		f(l.bytes), f(2*l.size*l.packetSlot), f(2*l.size*l.rowSlot), f(l.ring-l.tiles), maxBlocks, f(l.tileSlot), lanes, ringSlots, f(l.ringSlot),
		f(l.bytes-l.mail))
}

func down(n, unit int) int { return n / unit * unit }
func up(n, unit int) int   { return (n + unit - 1) / unit * unit }
