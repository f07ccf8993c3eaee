package peer

import (
	"fmt"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/kernels/ptx"
)

const (
	maxRanks   = 8 // as in the kernels
	tileDepth  = 4 // tiles of one pair in flight, as in the kernels
	maxBlocks  = 256
	ringSlots  = 2
	ringLanes  = 16 // at most, of the plan of a ring
	eagerSlots = 8  // of an eager buffer

	eagerWaits           = 4         // multiprocessors that collectives leave to messages whose peer may be behind one
	rendezvousSlots      = 2         // of the lines of long messages
	mostRendezvousBlocks = 64        // at most, of SentinelWarps
	fewBytes             = 24 << 20  // of a symmetric heap: eager buffers get little of those, for kernels need them
	eagerSlotMost        = 128 << 10 // bytes of a slot where long messages go by the sentinel protocol
	leastEager           = 16 << 10  // bytes in a slot, if a message takes more than one
	testBytes            = 1 << 10
	fusedBytes           = 4 * maxBlocks

	largePage          = 2 << 20   // of device memory; copies between processes are slower where a mapping ends within one
	ll128SlotMost      = 548 << 10 // has room for 512 KiB of data, and for both shots of 1 MiB among four ranks
	mostSentinelBlocks = 128       // at most
	leastSentinelSlots = 3         // at least
)

// layout is where things lie in a symmetric heap, in bytes from its beginning, and how large they are. All ranks compute the same.
//
//	tiles     for each block, phase and peer a circle of tiles
//	lines     places for each warp of some blocks
//	ring      slots of rings, over tiles and lines and all that is left
//	state     counters of this rank's kernels
//	flags     flag words of the tile kernels, then the marks of the direct ones
//	words     flag words that streams wait for
//	test      what the self-test receives from each rank, then what it sends to each
//	LL packets   two halves of one slot for each peer
//	rows      the same for rows
//	counts    of the warps by the sentinel protocol, then their signs
//	follow    counts of the blocks that go behind copy engines, then what the next rank has freed of its slots
//	mail      for each peer an eager buffer: a circle of slots, then lines for long messages
//	rendezvous messages   for each peer counts of the warps that send to it and receive from it, then the signs of both
//
// Tiles, lines and rings take turns in one memory, for each is better the more it has. None leaves anything there that an
// operation after it would read: what tile kernels remember lies in state and flags, a word of a ring is 0 when the ring is
// over, and a ring that had data where lines are leaves it cleared. That they never meet there, copyring.go proves. LL packets, rows
// and eager buffers share with nobody: their flags are among the data, or slots stay full from one operation to the next.
type layout struct {
	size                                                               int
	llSlot, ll128Slot, tileSlot, ringSlot                              int
	eagerSlot, pairBytes, rendezvousBlocks                             int // pairBytes is what a pair has one way, lines of so many blocks among it
	sentinelSlots, sentinelBlocks                                      int // of lines
	state, flags, words, test, ll, ll128, sentinel, tiles, ring, eager int
	counts, credits, rendezvous                                        int // of lines
	fused                                                              int
	bytes                                                              int
}

// newLayout shares out at most memory bytes among the parts for a group of the given size.
func newLayout(size, memory int) (layout, error) {
	l := layout{size: size}
	memory -= 64 << 10 // the small parts, and the ends of pages
	l.llSlot = up(memory/24/(2*size), 64<<10)
	l.ll128Slot = down(min(memory*3/64/(2*size), ll128SlotMost), 2*ptx.LL128Chunk)
	l.shareEager(max(memory/24, (memory-fewBytes)/6))
	if size > 1 {
		l.sentinelSlots = max(size, leastSentinelSlots)
		l.sentinelBlocks = min(memory/5/ptx.SentinelBytes(l.sentinelSlots, 1), mostSentinelBlocks)
	}
	circles := maxBlocks * 2 * max(size-1, 1)
	rest := memory - ptx.LLBytes(size, l.llSlot) - ptx.LL128Bytes(size, l.ll128Slot) - l.sentinelMemory() - (size-1)*(l.pairBytes+l.rendezvousBytes())
	l.tileSlot = down(min(rest/(circles*tileDepth), 32<<10), 1<<10)
	if l.llSlot < 4<<10 || l.tileSlot < 1<<10 || l.eagerSlot < 1<<10 || size > 1 && l.sentinelBlocks == 0 {
		return l, fmt.Errorf("%d bytes of symmetric heap, less the small parts, are too few for %d ranks", memory, size)
	}
	l.assign(memory + 64<<10)
	return l, nil
}

// sentinelBytes returns what lines take, sentinelMemory also what they take besides.
func (l *layout) sentinelBytes() int { return ptx.SentinelBytes(l.sentinelSlots, l.sentinelBlocks) }
func (l *layout) sentinelMemory() int {
	return l.sentinelBytes() + ptx.CountBytes(l.sentinelBlocks) + ptx.CreditBytes(l.sentinelBlocks)
}

// assign puts the parts one behind the other, those of rings with all that is left in front of them, so that they begin with a
// large page. Lines come last there: the second slot ends with them, and is filled that far by large slices alone.
func (l *layout) assign(memory int) {
	l.assignFrom(0)
	tiles, lines := up(ptx.TileBytes(l.size, l.tileSlot, maxBlocks), 4<<10), l.sentinelBytes()
	room := tiles + lines
	if l.size > 1 {
		room = max(down(memory, largePage)-l.bytes, room)
	}
	l.ringSlot = roughly(room/ringSlots, 64<<10, 256<<10)
	l.sentinel = max(tiles, ringSlots*l.ringSlot-lines)
	l.assignFrom(l.sentinel + lines)
	l.bytes = up(l.bytes, largePage)
}

// assignFrom puts the small parts behind some bytes.
func (l *layout) assignFrom(next int) {
	take := func(at *int, n int) {
		*at = next
		next += (n + 4095) &^ 4095
	}
	take(&l.state, 64+4*maxBlocks*maxRanks)
	take(&l.flags, ptx.FlagBytes(maxBlocks)+ptx.MarkBytes(maxBlocks))
	take(&l.words, 4*(l.numWords()+l.numTags()))
	take(&l.test, 2*l.size*testBytes)
	take(&l.ll, ptx.LLBytes(l.size, l.llSlot))
	take(&l.ll128, ptx.LL128Bytes(l.size, l.ll128Slot))
	take(&l.counts, ptx.CountBytes(l.sentinelBlocks))
	take(&l.credits, ptx.CreditBytes(l.sentinelBlocks))
	take(&l.fused, fusedBytes+4)
	take(&l.eager, (l.size-1)*l.pairBytes)
	take(&l.rendezvous, (l.size-1)*l.rendezvousBytes())
	l.bytes = next
}

// Words. A slot that one rank fills and another empties has two: arrived, with the slot, is set by the sender; free, on
// the sender, is set by the receiver. Both are 0 or 1, and reset by the rank that waited. Of eager buffers free begins as 1;
// of rings it means that the slot is free again, and begins and ends as 0.
//
// Behind them is a word for each peer that is ready for a rendezvous message: it is set by that one, and begins and ends as 0.
func (l *layout) numWords() int { return l.size * (2*(ringSlots+eagerSlots) + 1) }

func (l *layout) arrivedWords() int { return l.words }
func (l *layout) freeWords() int    { return l.words + 4*l.size*(ringSlots+eagerSlots) }
func (l *layout) clearToSendAt(peer int) int {
	return l.words + 4*(l.size*2*(ringSlots+eagerSlots)+peer)
}

// ringAt returns the places of a slot of rings on rank to: data and arrived word on to, free word on whoever fills it.
func (l *layout) ringAt(to, slot int) (data, arrived, free int) {
	return l.ring + slot*l.ringSlot, l.arrivedWords() + 4*slot, l.freeWords() + 4*(to*ringSlots+slot)
}

// fusedCredit returns where the next rank tells how far its slots are free.
func (l *layout) fusedCredit() int { return l.fused + fusedBytes }

// overSentinel returns how many bytes of lines the first n bytes of the second slot lie over.
func (l *layout) overSentinel(n int) int {
	return min(max(l.ring+l.ringSlot+n-l.sentinel, 0), l.sentinelBytes())
}

// eagerFree returns where the free words of eager buffers begin, and how many there are.
func (l *layout) eagerFree() (at, n int) {
	return l.freeWords() + 4*l.size*ringSlots, l.size * eagerSlots
}

// eagerAt returns the places of a slot of the eager buffer that rank from fills on rank to: data and arrived word on to, free
// word on from.
func (l *layout) eagerAt(from, to, slot int) (data, arrived, free int) {
	in, out := from*eagerSlots+slot, to*eagerSlots+slot
	data = l.eagerBuffer(from, to) + slot*l.eagerSlot
	return data, l.arrivedWords() + 4*(l.size*ringSlots+in), l.freeWords() + 4*(l.size*ringSlots+out)
}

// among returns which of a rank's peers another one is.
func among(peer, rank int) int {
	if peer > rank {
		return peer - 1
	}
	return peer
}

// eager buffer returns where the eager buffer that rank from fills on rank to begins.
func (l *layout) eagerBuffer(from, to int) int { return l.eager + among(from, to)*l.pairBytes }

// shareEager shares memory bytes out among the eager buffers of a rank, and each among slots and lines.
func (l *layout) shareEager(memory int) {
	box := memory / max(l.size-1, 1)
	l.eagerSlot = roughly(min(max(box/16, 1<<10), eagerSlotMost), 1<<10, 8<<10)
	l.rendezvousBlocks = min((box-eagerSlots*l.eagerSlot)/ptx.SentinelBytes(rendezvousSlots, 1), mostRendezvousBlocks)
	l.pairBytes = eagerSlots*l.eagerSlot + ptx.SentinelBytes(rendezvousSlots, l.rendezvousBlocks)
	if l.rendezvousBlocks <= 0 {
		l.pairBytes = down(box, eagerSlots<<10)
		l.withoutRendezvous()
	}
}

// withoutRendezvous gives the slots of eager buffers all memory: no message goes by the sentinel protocol.
func (l *layout) withoutRendezvous() { l.eagerSlot, l.rendezvousBlocks = l.pairBytes/eagerSlots, 0 }

// rendezvousAt returns where the lines of long messages from a rank to another lie on the other; rendezvousCounts and rendezvousCredits where a
// rank has its counts and signs of those it sends to a peer, or receives from it.
func (l *layout) rendezvousAt(from, to int) int {
	return l.eagerBuffer(from, to) + eagerSlots*l.eagerSlot
}

func (l *layout) rendezvousCounts(rank, peer int, sends bool) int {
	at := l.rendezvous + among(peer, rank)*l.rendezvousBytes()
	if sends {
		at += ptx.CountBytes(l.rendezvousBlocks)
	}
	return at
}

func (l *layout) rendezvousCredits(rank, peer int, sends bool) int {
	at := l.rendezvousCounts(rank, peer, false) + 2*ptx.CountBytes(l.rendezvousBlocks)
	if sends {
		at += ptx.CreditBytes(l.rendezvousBlocks)
	}
	return at
}

func (l *layout) rendezvousBytes() int {
	return 2 * (ptx.CountBytes(l.rendezvousBlocks) + ptx.CreditBytes(l.rendezvousBlocks))
}

// numTags counts the words, behind the others, that say what has arrived in an eager buffer. See eagerTags.
func (l *layout) numTags() int { return 2 * l.size * eagerSlots }

// eagerTags returns the places, on the receiving rank, of the words check and label of a slot that rank from fills.
func (l *layout) eagerTags(from, slot int) (check, label int) {
	at := l.words + 4*(l.numWords()+2*(from*eagerSlots+slot))
	return at, at + 4
}

// String says how large the parts are.
func (l *layout) String() string {
	f := func(n int) string { return colligo.FormatBytes(int64(n)) }
	return fmt.Sprintf("symmetric heap %s: LL %s, LL128 %s, eager buffers %s, tiles %s (%d blocks of %s) and sentinel %s (%d blocks), or copy-engine ring %d × %s",
		f(l.bytes), f(ptx.LLBytes(l.size, l.llSlot)), f(ptx.LL128Bytes(l.size, l.ll128Slot)), f((l.size-1)*l.pairBytes),
		f(ptx.TileBytes(l.size, l.tileSlot, maxBlocks)), maxBlocks, f(l.tileSlot),
		f(l.sentinelBytes()), l.sentinelBlocks, ringSlots, f(l.ringSlot))
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
