package peer

import (
	"fmt"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/kernels/ptx"
)

const (
	maxRanks  = 8 // as in the kernels
	tileDepth = 4 // tiles of one pair in flight, as in the kernels
	maxBlocks = 256
	ringSlots = 2
	ringLanes = 16 // at most, of the plan of a ring
	mailSlots = 8  // of a mailbox

	mailWaits    = 4         // multiprocessors that collectives leave to messages whose peer may be behind one
	letterPlaces = 2         // of the lines of long messages
	letterBlocks = 64        // at most, of LineWarps
	fewBytes     = 24 << 20  // of a heap: mailboxes get little of those, for kernels need them
	mailMost     = 128 << 10 // bytes of a slot where long messages go by lines
	leastMail    = 16 << 10  // bytes in a slot, if a message takes more than one
	testBytes    = 1 << 10
	followBytes  = 4 * maxBlocks

	largePage   = 2 << 20   // of device memory; copies between processes are slower where a mapping ends within one
	rowSlotMost = 548 << 10 // has room for 512 KiB of data, and for both shots of 1 MiB among four ranks
	lineBlocks  = 128       // at most
	linePlaces  = 3         // at least
)

// layout is where things lie in a heap, in bytes from its beginning, and how large they are. All ranks compute the same.
//
//	tiles     for each block, phase and peer a circle of tiles
//	lines     places for each warp of some blocks
//	ring      slots of rings, over tiles and lines and all that is left
//	state     counters of this rank's kernels
//	flags     flag words of the tile kernels, then the marks of the direct ones
//	words     flag words that streams wait for
//	test      what the self-test receives from each rank, then what it sends to each
//	packets   two halves of one slot for each peer
//	rows      the same for rows
//	counts    of the warps by lines, then their signs
//	follow    counts of the blocks that go behind copy engines, then what the next rank has freed of its slots
//	mail      for each peer a mailbox: a circle of slots, then lines for long messages
//	letters   for each peer counts of the warps that send to it and receive from it, then the signs of both
//
// Tiles, lines and rings take turns in one memory, for each is better the more it has. None leaves anything there that an
// operation after it would read: what tile kernels remember lies in state and flags, a word of a ring is 0 when the ring is
// over, and a ring that had data where lines are leaves it blank. That they never meet there, ring.go proves. Packets, rows
// and mailboxes share with nobody: their flags are among the data, or slots stay full from one operation to the next.
type layout struct {
	size                                                               int
	packetSlot, rowSlot, tileSlot, ringSlot                            int
	mailSlot, mailBox, mailBlocks                                      int // mailBox is what a pair has one way, lines of so many blocks among it
	places, blocks                                                     int // of lines
	state, flags, words, test, packets, rows, lines, tiles, ring, mail int
	counts, signs, letters                                             int // of lines
	follow                                                             int
	bytes                                                              int
}

// newLayout shares out at most memory bytes among the parts for a group of the given size.
func newLayout(size, memory int) (layout, error) {
	l := layout{size: size}
	memory -= 64 << 10 // the small parts, and the ends of pages
	l.packetSlot = up(memory/24/(2*size), 64<<10)
	l.rowSlot = down(min(memory*3/64/(2*size), rowSlotMost), 2*ptx.RowQuad)
	l.shareMail(max(memory/24, (memory-fewBytes)/6))
	if size > 1 {
		l.places = max(size, linePlaces)
		l.blocks = min(memory/5/ptx.LineBytes(l.places, 1), lineBlocks)
	}
	circles := maxBlocks * 2 * max(size-1, 1)
	rest := memory - ptx.PacketBytes(size, l.packetSlot) - ptx.RowBytes(size, l.rowSlot) - l.lineMemory() - (size-1)*(l.mailBox+l.letterBytes())
	l.tileSlot = down(min(rest/(circles*tileDepth), 32<<10), 1<<10)
	if l.packetSlot < 4<<10 || l.tileSlot < 1<<10 || l.mailSlot < 1<<10 || size > 1 && l.blocks == 0 {
		return l, fmt.Errorf("%d bytes of heap, less the small parts, are too few for %d ranks", memory, size)
	}
	l.place(memory + 64<<10)
	return l, nil
}

// lineBytes returns what lines take, lineMemory also what they take besides.
func (l *layout) lineBytes() int { return ptx.LineBytes(l.places, l.blocks) }
func (l *layout) lineMemory() int {
	return l.lineBytes() + ptx.CountBytes(l.blocks) + ptx.SignBytes(l.blocks)
}

// place puts the parts one behind the other, those of rings with all that is left in front of them, so that they begin with a
// large page. Lines come last there: the second slot ends with them, and is filled that far by large slices alone.
func (l *layout) place(memory int) {
	l.placeFrom(0)
	tiles, lines := up(ptx.TileBytes(l.size, l.tileSlot, maxBlocks), 4<<10), l.lineBytes()
	room := tiles + lines
	if l.size > 1 {
		room = max(down(memory, largePage)-l.bytes, room)
	}
	l.ringSlot = roughly(room/ringSlots, 64<<10, 256<<10)
	l.lines = max(tiles, ringSlots*l.ringSlot-lines)
	l.placeFrom(l.lines + lines)
	l.bytes = up(l.bytes, largePage)
}

// placeFrom puts the small parts behind some bytes.
func (l *layout) placeFrom(next int) {
	take := func(at *int, n int) {
		*at = next
		next += (n + 4095) &^ 4095
	}
	take(&l.state, 64+4*maxBlocks*maxRanks)
	take(&l.flags, ptx.FlagBytes(maxBlocks)+ptx.MarkBytes(maxBlocks))
	take(&l.words, 4*(l.numWords()+l.numTags()))
	take(&l.test, 2*l.size*testBytes)
	take(&l.packets, ptx.PacketBytes(l.size, l.packetSlot))
	take(&l.rows, ptx.RowBytes(l.size, l.rowSlot))
	take(&l.counts, ptx.CountBytes(l.blocks))
	take(&l.signs, ptx.SignBytes(l.blocks))
	take(&l.follow, followBytes+4)
	take(&l.mail, (l.size-1)*l.mailBox)
	take(&l.letters, (l.size-1)*l.letterBytes())
	l.bytes = next
}

// Words. A slot that one rank fills and another empties has two: arrived, with the slot, is set by the sender; free, on
// the sender, is set by the receiver. Both are 0 or 1, and reset by the rank that waited. Of mailboxes free begins as 1;
// of rings it means that the slot is free again, and begins and ends as 0.
//
// Behind them is a word for each peer that is ready for a letter: it is set by that one, and begins and ends as 0.
func (l *layout) numWords() int { return l.size * (2*(ringSlots+mailSlots) + 1) }

func (l *layout) arrivedWords() int    { return l.words }
func (l *layout) freeWords() int       { return l.words + 4*l.size*(ringSlots+mailSlots) }
func (l *layout) readyAt(peer int) int { return l.words + 4*(l.size*2*(ringSlots+mailSlots)+peer) }

// ringAt returns the places of a slot of rings on rank to: data and arrived word on to, free word on whoever fills it.
func (l *layout) ringAt(to, slot int) (data, arrived, free int) {
	return l.ring + slot*l.ringSlot, l.arrivedWords() + 4*slot, l.freeWords() + 4*(to*ringSlots+slot)
}

// freed returns where the next rank tells how far its slots are free.
func (l *layout) freed() int { return l.follow + followBytes }

// overLines returns how many bytes of lines the first n bytes of the second slot lie over.
func (l *layout) overLines(n int) int { return min(max(l.ring+l.ringSlot+n-l.lines, 0), l.lineBytes()) }

// mailFree returns where the free words of mailboxes begin, and how many there are.
func (l *layout) mailFree() (at, n int) {
	return l.freeWords() + 4*l.size*ringSlots, l.size * mailSlots
}

// mailAt returns the places of a slot of the mailbox that rank from fills on rank to: data and arrived word on to, free
// word on from.
func (l *layout) mailAt(from, to, slot int) (data, arrived, free int) {
	in, out := from*mailSlots+slot, to*mailSlots+slot
	data = l.mailbox(from, to) + slot*l.mailSlot
	return data, l.arrivedWords() + 4*(l.size*ringSlots+in), l.freeWords() + 4*(l.size*ringSlots+out)
}

// among returns which of a rank's peers another one is.
func among(peer, rank int) int {
	if peer > rank {
		return peer - 1
	}
	return peer
}

// mailbox returns where the mailbox that rank from fills on rank to begins.
func (l *layout) mailbox(from, to int) int { return l.mail + among(from, to)*l.mailBox }

// shareMail shares memory bytes out among the mailboxes of a rank, and each among slots and lines.
func (l *layout) shareMail(memory int) {
	box := memory / max(l.size-1, 1)
	l.mailSlot = roughly(min(max(box/16, 1<<10), mailMost), 1<<10, 8<<10)
	l.mailBlocks = min((box-mailSlots*l.mailSlot)/ptx.LineBytes(letterPlaces, 1), letterBlocks)
	l.mailBox = mailSlots*l.mailSlot + ptx.LineBytes(letterPlaces, l.mailBlocks)
	if l.mailBlocks <= 0 {
		l.mailBox = down(box, mailSlots<<10)
		l.withoutLetters()
	}
}

// withoutLetters gives the slots of mailboxes all memory: no message goes by lines.
func (l *layout) withoutLetters() { l.mailSlot, l.mailBlocks = l.mailBox/mailSlots, 0 }

// letterAt returns where the lines of long messages from a rank to another lie on the other; letterCounts and letterSigns where a
// rank has its counts and signs of those it sends to a peer, or receives from it.
func (l *layout) letterAt(from, to int) int { return l.mailbox(from, to) + mailSlots*l.mailSlot }

func (l *layout) letterCounts(rank, peer int, sends bool) int {
	at := l.letters + among(peer, rank)*l.letterBytes()
	if sends {
		at += ptx.CountBytes(l.mailBlocks)
	}
	return at
}

func (l *layout) letterSigns(rank, peer int, sends bool) int {
	at := l.letterCounts(rank, peer, false) + 2*ptx.CountBytes(l.mailBlocks)
	if sends {
		at += ptx.SignBytes(l.mailBlocks)
	}
	return at
}

func (l *layout) letterBytes() int {
	return 2 * (ptx.CountBytes(l.mailBlocks) + ptx.SignBytes(l.mailBlocks))
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
	return fmt.Sprintf("heap %s: packets %s, rows %s, mailboxes %s, tiles %s (%d blocks of %s) and lines %s (%d blocks), or ring %d × %s",
		f(l.bytes), f(ptx.PacketBytes(l.size, l.packetSlot)), f(ptx.RowBytes(l.size, l.rowSlot)), f((l.size-1)*l.mailBox),
		f(ptx.TileBytes(l.size, l.tileSlot, maxBlocks)), maxBlocks, f(l.tileSlot),
		f(l.lineBytes()), l.blocks, ringSlots, f(l.ringSlot))
}

func down(n, unit int) int { return n / unit * unit }
func up(n, unit int) int   { return (n + unit - 1) / unit * unit }

// roughly rounds down to a multiple of a coarse unit, if there is one, else of a fine one.
func roughly(n, fine, coarse int) int {
	if n >= coarse {
		return down(n, coarse)
	}
	return down(n, fine)
}
