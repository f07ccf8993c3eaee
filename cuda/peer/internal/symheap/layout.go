package symheap

import (
	"fmt"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/kernels/ptx"
)

const (
	MaxRanks  = 8   // of a group, as in the kernels
	TileDepth = 4   // tiles of one pair in flight, as in the kernels
	MaxBlocks = 256 // of a grid

	RingSlots       = 2 // of a copy-engine ring, on each rank
	EagerSlots      = 8 // of an eager buffer
	RendezvousSlots = 2 // of each warp's sentinel memory for long messages

	EagerMost = 128 << 10 // bytes of an eager slot where long messages have sentinel memory of their own

	rendezvousBlocks = 64       // at most, of ptx.SentinelWarps
	fewBytes         = 24 << 20 // of a heap: eager buffers get little of so few, for kernels need them
	testBytes        = 1 << 10  // for each rank, of the self-test
	fusedBytes       = 4 * MaxBlocks
	largePage        = 2 << 20   // of device memory; copies between processes are slower where a mapping ends within one
	ll128SlotMost    = 548 << 10 // has room for 512 KiB of data, and for both shots of 1 MiB among four ranks
	sentinelBlocks   = 128       // at most
	sentinelSlots    = 3         // at least
)

// Layout is where things lie in a heap, in bytes from its beginning, and how large they are. All ranks compute the same.
//
//	tiles       for each block, phase and peer a circle of tiles
//	sentinel    sentinel memory of the sentinel protocol: slots for each warp of some blocks
//	ring        slots of copy-engine rings, over tiles, sentinel and all that is left
//	state       counters of this rank's kernels
//	flags       flag words of the tile kernels, then marks by which the direct kernels compare what they mean
//	words       flag words that streams wait for
//	test        what the self-test receives from each rank, then what it sends to each
//	LL          two halves of one slot for each peer
//	LL128       the same for LL128
//	counts      of the warps of the sentinel protocol, then their credits
//	fused       counts of the blocks of a fused ring, then how far the next rank has freed its slots
//	eager       for each peer an eager buffer: a circle of slots, then sentinel memory for long messages
//	rendezvous  for each peer counts of the warps that send to it and receive from it, then the credits of both
//
// Tiles, sentinel memory and copy-engine rings share one memory in turn, for each is better the more it has. None leaves
// anything there that an operation after it would read. Tile kernels keep their counters in state and flags. A word of a ring
// is 0 when the ring is over. A ring that had data in sentinel memory fills it with sentinels again. The comment of copyRing
// in package peer proves that the three never meet there.
//
// LL, LL128 and eager buffers share with nobody: their flags are among the data, or slots stay full from one operation to the
// next.
type Layout struct {
	size int

	// How large the slots of the protocols are.
	LLSlot, LL128Slot, TileSlot, RingSlot, EagerSlot int
	eagerBuffer, RendezvousBlocks                    int // of a pair one way, sentinel memory of so many blocks among it
	SentinelSlots, SentinelBlocks                    int

	// Where the parts begin.
	Tiles, Sentinel, Ring, State, Flags, Words, test, LL, LL128 int
	Counts, Credits, Fused, Eager, rendezvous                   int

	Bytes int
}

// NewLayout shares out at most memory bytes among the parts for a group of the given size.
func NewLayout(size, memory int) (Layout, error) {
	l := Layout{size: size}
	memory -= 64 << 10 // the small parts, and the ends of pages
	l.LLSlot = up(memory/24/(2*size), 64<<10)
	l.LL128Slot = down(min(memory*3/64/(2*size), ll128SlotMost), 2*ptx.LL128Chunk)
	l.shareEager(max(memory/24, (memory-fewBytes)/6))
	if size > 1 {
		l.SentinelSlots = max(size, sentinelSlots)
		l.SentinelBlocks = min(memory/5/ptx.SentinelBytes(l.SentinelSlots, 1), sentinelBlocks)
	}
	circles := MaxBlocks * 2 * max(size-1, 1)
	rest := memory - ptx.LLBytes(size, l.LLSlot) - ptx.LL128Bytes(size, l.LL128Slot) - l.sentinelMemory() - (size-1)*(l.eagerBuffer+l.rendezvousBytes())
	l.TileSlot = down(min(rest/(circles*TileDepth), 32<<10), 1<<10)
	if l.LLSlot < 4<<10 || l.TileSlot < 1<<10 || l.EagerSlot < 1<<10 || size > 1 && l.SentinelBlocks == 0 {
		return l, fmt.Errorf("%d bytes of heap, less the small parts, are too few for %d ranks", memory, size)
	}
	l.arrange(memory + 64<<10)
	return l, nil
}

// SentinelBytes returns how much sentinel memory the sentinel protocol has.
func (l *Layout) SentinelBytes() int { return ptx.SentinelBytes(l.SentinelSlots, l.SentinelBlocks) }

// sentinelMemory adds the counts and the credits.
func (l *Layout) sentinelMemory() int {
	return l.SentinelBytes() + ptx.CountBytes(l.SentinelBlocks) + ptx.CreditBytes(l.SentinelBlocks)
}

// arrange puts the parts one behind the other. Rings come first, with all that is left, so that they begin with a large page.
// Sentinel memory comes last among them: the second ring slot ends with it, and only large slices fill the slot that far.
func (l *Layout) arrange(memory int) {
	l.arrangeSmall(0)
	tiles, sentinels := up(ptx.TileBytes(l.size, l.TileSlot, MaxBlocks), 4<<10), l.SentinelBytes()
	room := tiles + sentinels
	if l.size > 1 {
		room = max(down(memory, largePage)-l.Bytes, room)
	}
	l.RingSlot = roughly(room/RingSlots, 64<<10, 256<<10)
	l.Sentinel = max(tiles, RingSlots*l.RingSlot-sentinels)
	l.arrangeSmall(l.Sentinel + sentinels)
	l.Bytes = up(l.Bytes, largePage)
}

// arrangeSmall puts the small parts behind some bytes.
func (l *Layout) arrangeSmall(next int) {
	take := func(at *int, n int) {
		*at = next
		next += (n + 4095) &^ 4095
	}
	take(&l.State, 64+4*MaxBlocks*MaxRanks)
	take(&l.Flags, ptx.FlagBytes(MaxBlocks)+ptx.MarkBytes(MaxBlocks))
	take(&l.Words, 4*(l.NumWords()+l.NumTags()))
	take(&l.test, 2*l.size*testBytes)
	take(&l.LL, ptx.LLBytes(l.size, l.LLSlot))
	take(&l.LL128, ptx.LL128Bytes(l.size, l.LL128Slot))
	take(&l.Counts, ptx.CountBytes(l.SentinelBlocks))
	take(&l.Credits, ptx.CreditBytes(l.SentinelBlocks))
	take(&l.Fused, fusedBytes+4)
	take(&l.Eager, (l.size-1)*l.eagerBuffer)
	take(&l.rendezvous, (l.size-1)*l.rendezvousBytes())
	l.Bytes = next
}

// NumWords counts the flag words, except tags. A slot that one rank fills and another empties has two words. The sender sets
// arrived, which lies with the slot. The receiver sets free, which lies on the sender. Both are 0 or 1, and the rank that
// waited resets them. In eager buffers free begins as 1. In rings it means that the slot is free again, and begins and ends
// as 0.
//
// Behind them is a clear-to-send word for each peer. The receiver of a long message sets it, and it begins and ends as 0. Last comes a
// trusted word for each peer. It begins as 1, and the peer makes it 0 before it releases its streams.
func (l *Layout) NumWords() int { return l.size * (2*(RingSlots+EagerSlots) + 2) }

// ArrivedWords returns where the arrived words begin.
func (l *Layout) ArrivedWords() int { return l.Words }

func (l *Layout) freeWords() int { return l.Words + 4*l.size*(RingSlots+EagerSlots) }

// ClearToSendAt returns the clear-to-send word that a peer sets on this rank.
func (l *Layout) ClearToSendAt(peer int) int {
	return l.Words + 4*(l.size*2*(RingSlots+EagerSlots)+peer)
}

// TrustedAt returns the trusted word that a peer resets on this rank.
func (l *Layout) TrustedAt(peer int) int { return l.ClearToSendAt(l.size) + 4*peer }

// RingAt returns where a slot of rings on rank to lies: data and arrived word on to, free word on the rank that fills it.
func (l *Layout) RingAt(to, slot int) (data, arrived, free int) {
	return l.Ring + slot*l.RingSlot, l.ArrivedWords() + 4*slot, l.freeWords() + 4*(to*RingSlots+slot)
}

// FusedCredit returns where the next rank of a fused ring tells how far its slots are free.
func (l *Layout) FusedCredit() int { return l.Fused + fusedBytes }

// OverSentinel returns how many bytes of sentinel memory the first n bytes of the second ring slot cover.
func (l *Layout) OverSentinel(n int) int {
	return min(max(l.Ring+l.RingSlot+n-l.Sentinel, 0), l.SentinelBytes())
}

// eagerFree returns where the free words of eager buffers begin, and how many there are.
func (l *Layout) eagerFree() (at, n int) {
	return l.freeWords() + 4*l.size*RingSlots, l.size * EagerSlots
}

// EagerAt returns where a slot of the eager buffer lies that rank from fills on rank to. Data and arrived word are on to, the
// free word is on from.
func (l *Layout) EagerAt(from, to, slot int) (data, arrived, free int) {
	in, out := from*EagerSlots+slot, to*EagerSlots+slot
	data = l.eagerBufferAt(from, to) + slot*l.EagerSlot
	return data, l.ArrivedWords() + 4*(l.size*RingSlots+in), l.freeWords() + 4*(l.size*RingSlots+out)
}

// among returns which of a rank's peers another one is.
func among(peer, rank int) int {
	if peer > rank {
		return peer - 1
	}
	return peer
}

// eagerBufferAt returns where the eager buffer that rank from fills on rank to begins.
func (l *Layout) eagerBufferAt(from, to int) int { return l.Eager + among(from, to)*l.eagerBuffer }

// shareEager shares memory bytes out among the eager buffers of a rank, and each among slots and sentinel memory.
func (l *Layout) shareEager(memory int) {
	box := memory / max(l.size-1, 1)
	l.EagerSlot = roughly(min(max(box/16, 1<<10), EagerMost), 1<<10, 8<<10)
	l.RendezvousBlocks = min((box-EagerSlots*l.EagerSlot)/ptx.SentinelBytes(RendezvousSlots, 1), rendezvousBlocks)
	l.eagerBuffer = EagerSlots*l.EagerSlot + ptx.SentinelBytes(RendezvousSlots, l.RendezvousBlocks)
	if l.RendezvousBlocks <= 0 {
		l.eagerBuffer = down(box, EagerSlots<<10)
		l.WithoutRendezvous()
	}
}

// WithoutRendezvous gives the slots of eager buffers all memory: no message is long.
func (l *Layout) WithoutRendezvous() { l.EagerSlot, l.RendezvousBlocks = l.eagerBuffer/EagerSlots, 0 }

// RendezvousAt returns where the sentinel memory of long messages from a rank to another lies on the other.
func (l *Layout) RendezvousAt(from, to int) int {
	return l.eagerBufferAt(from, to) + EagerSlots*l.EagerSlot
}

// RendezvousCounts returns where a rank counts the long messages that it sends to a peer, or receives from it.
func (l *Layout) RendezvousCounts(rank, peer int, sends bool) int {
	at := l.rendezvous + among(peer, rank)*l.rendezvousBytes()
	if sends {
		at += ptx.CountBytes(l.RendezvousBlocks)
	}
	return at
}

// RendezvousCredits returns where the credits of long messages lie that a rank sends to a peer, or receives from it.
func (l *Layout) RendezvousCredits(rank, peer int, sends bool) int {
	at := l.RendezvousCounts(rank, peer, false) + 2*ptx.CountBytes(l.RendezvousBlocks)
	if sends {
		at += ptx.CreditBytes(l.RendezvousBlocks)
	}
	return at
}

func (l *Layout) rendezvousBytes() int {
	return 2 * (ptx.CountBytes(l.RendezvousBlocks) + ptx.CreditBytes(l.RendezvousBlocks))
}

// NumTags counts the words, behind the others, that describe messages in eager buffers. See EagerTags.
func (l *Layout) NumTags() int { return 2 * l.size * EagerSlots }

// EagerTags returns where the words check and label of a slot that rank from fills lie on the receiving rank.
func (l *Layout) EagerTags(from, slot int) (check, label int) {
	at := l.Words + 4*(l.NumWords()+2*(from*EagerSlots+slot))
	return at, at + 4
}

// String says how large the parts are.
func (l *Layout) String() string {
	f := func(n int) string { return colligo.FormatBytes(int64(n)) }
	return fmt.Sprintf("symmetric heap %s: LL %s, LL128 %s, eager buffers %s, tiles %s (%d blocks of %s) and sentinel %s (%d blocks), or copy-engine ring %d × %s",
		f(l.Bytes), f(ptx.LLBytes(l.size, l.LLSlot)), f(ptx.LL128Bytes(l.size, l.LL128Slot)), f((l.size-1)*l.eagerBuffer),
		f(ptx.TileBytes(l.size, l.TileSlot, MaxBlocks)), MaxBlocks, f(l.TileSlot),
		f(l.SentinelBytes()), l.SentinelBlocks, RingSlots, f(l.RingSlot))
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
