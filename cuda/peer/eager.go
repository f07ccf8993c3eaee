package peer

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/kernels/ptx"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/plan"
)

// A message travels through an eager buffer slot by slot, each slot filled by a kernel and emptied by one, or by streams that wait for
// words and write them where a kernel may have to end before another begins, and where a message is too long for its eager buffer. The
// first slot says what the message is, so that a receive takes nothing but what it asked for, and no host waits for another:
//
//	arrived   the code of the message, in the words of all slots: 1 for those after the first
//	check     mostCode less the code
//	label     which message it is, and its length, for the error's sake
//
// A message that does not fit into all slots at once is a rendezvous message (rendezvous.go): then its slot says what it is, and carries nothing.
//
// Streams wait for "at least", so arrived and check together wait for equality; and both waits end when words are set
// to mostCode, which is how a failure ends them whatever they wait for.
const (
	mostCode  = ptx.MostCode
	mixBits   = 25
	mix       = 1<<mixBits - 1
	countBits = 22
	mostCount = 1<<countBits - 1 // told as this many or more
	numbers   = 1<<(32-countBits) - 1
)

// message is what the two sides of a message must agree on.
type message struct {
	dtype      colligo.DType
	count, tag int
}

func messageOf(c *pg.Call) message { return message{c.DType, c.Count, c.Tag} }

// code is different for different messages, but for one in 2^25 of those that differ in both tag and length. It lies
// between 2 and mostCode.
func (m message) code() uint32 {
	return uint32(m.dtype)<<mixBits | (foldTag(m.tag)^foldCount(m.count))&mix + 2
}

func foldTag(tag int) uint32 { return uint32(tag) ^ uint32(tag)>>mixBits }

func foldCount(count int) uint32 { return uint32(count)*0x9e3779b1>>7 ^ uint32(count>>32) }

// label is what arrives with the n-th message of a pair; 0 stands for a number that nobody knows.
func (m message) label(n int) uint32 {
	number := uint32(0)
	if n > 0 {
		number = uint32(n%numbers) + 1
	}
	return number<<countBits | uint32(min(m.count, mostCount))
}

// sender words what a code and a label say.
func sender(code, label uint32) string {
	count, dtype := int(label&mostCount), colligo.DType((code-2)>>mixBits)
	if count == mostCount {
		return fmt.Sprintf("%d or more %v elements", mostCount, dtype)
	}
	return fmt.Sprintf("%d %v elements with tag %d", count, dtype, ((code-2)^foldCount(count))&mix)
}

// remembered is how many receives back a message can be compared.
const remembered = 256

// eagerPair is what a rank knows of the messages between it and one peer. Both count slots and messages alike, unless one of
// them has captured some in a graph: then numbers tell nothing any more.
type eagerPair struct {
	sentSlots, receivedSlots int
	awaited                  int // the slot, from 1, that the last send needs free last; 0: there was none
	sent, received           int // messages
	captured                 bool
	watched, settled         [numQueues]int // messages when the watchdog's event was recorded, and known to be done
	expected                 []expectation  // by number modulo remembered; made at the first receive
}

type expectation struct {
	number int
	message
}

// send copies a tensor into the eager buffer of a peer. It waits for a slot that is not free yet, so who sends much needs the receiver.
// Messages of a pair arrive in the order in which they were sent, and must be received in that order: a tag does not let a receive
// overtake.
func (b *backend) send(t cuda.Thread, c *pg.Call, s cuda.Stream) error {
	m, bytes := &b.eagerPairs[c.Peer], c.Count*c.DType.Size()
	if err := m.note(t, s); err != nil {
		return err
	}
	m.sent++
	if b.isRendezvous(bytes) {
		return b.sendRendezvous(t, c, s)
	}
	return b.fill(t, c, bytes, s)
}

// receive copies what a peer has put into this rank's eager buffer to the tensor.
func (b *backend) receive(t cuda.Thread, c *pg.Call, s cuda.Stream) error {
	if c.Peer == plan.None {
		return errors.New("a GPU has to be told which rank it waits for") // pg has refused it
	}
	m, bytes := &b.eagerPairs[c.Peer], c.Count*c.DType.Size()
	if err := m.note(t, s); err != nil {
		return err
	}
	m.expect(messageOf(c))
	if b.isRendezvous(bytes) {
		return b.receiveRendezvous(t, c, s)
	}
	return b.empty(t, c, bytes, s)
}

// fill puts so many bytes of a message into slots.
func (b *backend) fill(t cuda.Thread, c *pg.Call, bytes int, s cuda.Stream) error {
	m, of := &b.eagerPairs[c.Peer], messageOf(c)
	label := of.label(m.number(m.sent))
	if !b.postable(bytes) {
		return first(b.post(t, s), b.fillSlots(t, c, label, s))
	}
	x := b.nextMessage(b.rank, c.Peer, m.sentSlots, bytes)
	x.At, x.Code, x.Label, x.Receives = uint64(addressOf(c.In)), of.code(), label, 0
	m.sentSlots += int(x.Parts)
	m.awaited = (m.sentSlots-1)%eagerSlots + 1
	return b.hand(t, s)
}

// empty takes so many bytes of a message from slots.
func (b *backend) empty(t cuda.Thread, c *pg.Call, bytes int, s cuda.Stream) error {
	m := &b.eagerPairs[c.Peer]
	if !b.postable(bytes) {
		return first(b.post(t, s), b.emptySlots(t, c, s))
	}
	x := b.nextMessage(c.Peer, b.rank, m.receivedSlots, bytes)
	x.At, x.Code, x.Receives = uint64(addressOf(c.Out)), messageOf(c).code(), 1
	m.receivedSlots += int(x.Parts)
	return b.hand(t, s)
}

// postable reports whether a kernel carries a message of so many bytes.
func (b *backend) postable(bytes int) bool {
	return !b.serial && bytes <= eagerSlots*min(b.layout.eagerSlot, eagerSlotMost)
}

// eagerPart returns how many bytes of a message go to a slot: a short one is dealt to some blocks.
func (b *backend) eagerPart(bytes int) int {
	if !b.postable(bytes) {
		return b.layout.eagerSlot
	}
	return min(max(up((bytes+eagerWaits-1)/eagerWaits, 16), leastEager), b.layout.eagerSlot)
}

// eagerParts returns how many slots a message takes.
func (b *backend) eagerParts(bytes int) int {
	return max((bytes+b.eagerPart(bytes)-1)/b.eagerPart(bytes), 1)
}

// nextMessage is the next one of the launch to come, of which so many slots of the pair come before it.
func (b *backend) nextMessage(from, to, before, bytes int) *ptx.Message {
	data, arrived, free := b.layout.eagerAt(from, to, 0)
	tags, _ := b.layout.eagerTags(from, 0)
	sender, receiver := uint64(b.peers[from].at), uint64(b.peers[to].at)
	x := &b.args.eager.Messages[b.messages]
	b.messages++
	x.Data, x.Arrived, x.Free, x.Tags = receiver+uint64(data), receiver+uint64(arrived), sender+uint64(free), receiver+uint64(tags)
	x.Slot, x.Part, x.First, x.Slots = uint32(b.layout.eagerSlot), uint32(b.eagerPart(bytes)), uint32(before%eagerSlots), eagerSlots
	x.Bytes, x.Parts, x.Peer = uint64(bytes), uint32(b.eagerParts(bytes)), uint32(from+to-b.rank)
	return x
}

// hand launches the messages at hand, unless they are a block's, which takes more.
func (b *backend) hand(t cuda.Thread, s cuda.Stream) error {
	if b.block.gathers && b.messages < ptx.MostMessages {
		return nil
	}
	return b.post(t, s)
}

// post launches the messages at hand. A peer may be behind a collective that needs the multiprocessors of this device, so few blocks
// wait at once: sends and receives are in one launch, or in two side by side. What comes to a slot again is for the same block, for
// messages of a peer follow one another, and eagerSlots is a multiple of eagerWaits. It is no graph, for the same reason as a rendezvous message.
func (b *backend) post(t cuda.Thread, s cuda.Stream) error {
	if b.messages == 0 {
		return nil
	}
	a, parts, longest, blocks := &b.args.eager, 0, 0, eagerWaits/2
	for i := range a.Messages[:b.messages] {
		x := &a.Messages[i]
		parts, longest = parts+int(x.Parts), max(longest, int(min(x.Bytes, uint64(x.Part))))
	}
	if b.block.gathers {
		blocks = eagerWaits
	}
	grid := cuda.Grid{Blocks: uint32(min(parts, blocks)), Threads: uint32(min(up(max((longest+15)/16, 1), 32), 512))}
	err := b.code.launchOnce(t, b.code.move.exchangeEager, grid, unsafe.Pointer(a), s)
	b.dropMessages()
	return first(err, b.weigh(t, s, 1))
}

// dropMessages forgets those at hand.
func (b *backend) dropMessages() {
	for i := range b.args.eager.Messages[:b.messages] {
		b.args.eager.Messages[i].Parts = 0
	}
	b.messages = 0
}

// fillSlots has the stream copy a message to slots.
func (b *backend) fillSlots(t cuda.Thread, c *pg.Call, said uint32, s cuda.Stream) error {
	m, src, to, code, bytes := &b.eagerPairs[c.Peer], addressOf(c.In), b.peers[c.Peer].at, messageOf(c).code(), c.Count*c.DType.Size()
	for off := 0; off == 0 || off < bytes; off += b.layout.eagerSlot {
		n := min(b.layout.eagerSlot, bytes-off)
		slot := m.sentSlots % eagerSlots
		data, arrived, free := b.layout.eagerAt(b.rank, c.Peer, slot)
		m.sentSlots++
		if err := b.fillSlot(t, s, to+cuda.Pointer(data), src+cuda.Pointer(off), n, b.heap+cuda.Pointer(free)); err != nil {
			return err
		}
		if off == 0 {
			check, label := b.layout.eagerTags(b.rank, slot)
			if err := first(t.Write32(s, to+cuda.Pointer(label), said), t.Write32(s, to+cuda.Pointer(check), mostCode-code)); err != nil {
				return err
			}
		}
		if err := first(t.Write32(s, to+cuda.Pointer(arrived), code), b.weigh(t, s, 6)); err != nil {
			return err
		}
		code = 1
	}
	return nil
}

// fillSlot copies n bytes when the slot is free.
func (b *backend) fillSlot(t cuda.Thread, s cuda.Stream, dst, src cuda.Pointer, n int, free cuda.Pointer) error {
	if err := first(t.Wait32(s, free, 1), t.Write32(s, free, 0)); err != nil || n == 0 {
		return err
	}
	return t.Copy(dst, src, n, s)
}

// emptySlots has the stream copy a message from slots.
func (b *backend) emptySlots(t cuda.Thread, c *pg.Call, s cuda.Stream) error {
	m, dst, from, code, bytes := &b.eagerPairs[c.Peer], addressOf(c.Out), b.peers[c.Peer].at, messageOf(c).code(), c.Count*c.DType.Size()
	for off := 0; off == 0 || off < bytes; off += b.layout.eagerSlot {
		n := min(b.layout.eagerSlot, bytes-off)
		slot := m.receivedSlots % eagerSlots
		data, arrived, free := b.layout.eagerAt(c.Peer, b.rank, slot)
		m.receivedSlots++
		if err := t.Wait32(s, b.heap+cuda.Pointer(arrived), code); err != nil {
			return err
		}
		if off == 0 {
			check, _ := b.layout.eagerTags(c.Peer, slot)
			if err := t.Wait32(s, b.heap+cuda.Pointer(check), mostCode-code); err != nil {
				return err
			}
		}
		if err := t.Write32(s, b.heap+cuda.Pointer(arrived), 0); err != nil {
			return err
		}
		if n > 0 {
			if err := t.Copy(dst+cuda.Pointer(off), b.heap+cuda.Pointer(data), n, s); err != nil {
				return err
			}
		}
		if err := first(t.Write32(s, from+cuda.Pointer(free), 1), b.weigh(t, s, 5)); err != nil {
			return err
		}
		code = 1
	}
	return nil
}

// note remembers that a graph captures messages.
func (m *eagerPair) note(t cuda.Thread, s cuda.Stream) error {
	captured, _, err := capture(t, s)
	m.captured = m.captured || captured
	return err
}

// number is n while numbers mean something, else 0.
func (m *eagerPair) number(n int) int {
	if m.captured {
		return 0
	}
	return n
}

func (m *eagerPair) expect(of message) {
	if m.expected == nil {
		m.expected = make([]expectation, remembered)
	}
	m.received++
	m.expected[m.received%remembered] = expectation{m.received, of}
}
