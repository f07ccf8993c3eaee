package peer

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/internal/devmem"
	"github.com/colligo-go/colligo/cuda/internal/streamorder"
	"github.com/colligo-go/colligo/cuda/peer/internal/symheap"
	"github.com/colligo-go/colligo/kernels/ptx"
	seam "github.com/colligo-go/colligo/pg/backend"
	"github.com/colligo-go/colligo/plan"
)

// A message travels through an eager buffer slot by slot. One kernel fills the slots and one empties them. Where a kernel may
// have to end before another begins, streams do it instead, with waits and writes of words. So they do where a message is too
// long for its eager buffer. The first slot describes the message, so a receive takes nothing but the message that it asked
// for, and no host waits for another:
//
//	arrived   the code of the message, in the words of all slots: 1 for those after the first
//	check     mostCode less the code
//	label     which message it is, and its length, for the error's sake
//
// A message that does not fit into all slots at once is a rendezvous message (rendezvous.go). Then its slot describes it, and
// carries nothing.
//
// Streams wait for "at least", so arrived and check together wait for equality. Both waits end when words are set to mostCode.
// That is how a failure ends them, whatever they wait for.
const (
	mostCode  = ptx.MostCode
	mixBits   = 25
	mix       = 1<<mixBits - 1
	countBits = 22
	mostCount = 1<<countBits - 1 // told as this many or more
	numbers   = 1<<(32-countBits) - 1
)

// message has the properties of a message on which its two sides must agree.
type message struct {
	dtype      colligo.DType
	count, tag int
}

func messageOf(c *seam.Call) message { return message{c.DType, c.Count, c.Tag} }

// code is different for different messages, but for one in 2^25 of those that differ in both tag and length. It lies
// between 2 and mostCode.
func (m message) code() uint32 {
	return uint32(m.dtype)<<mixBits | (foldTag(m.tag)^foldCount(m.count))&mix + 2
}

func foldTag(tag int) uint32 { return uint32(tag) ^ uint32(tag)>>mixBits }

func foldCount(count int) uint32 { return uint32(count)*0x9e3779b1>>7 ^ uint32(count>>32) }

// label is the word that arrives with the n-th message of a pair; 0 stands for a number that no rank knows.
func (m message) label(n int) uint32 {
	number := uint32(0)
	if n > 0 {
		number = uint32(n%numbers) + 1
	}
	return number<<countBits | uint32(min(m.count, mostCount))
}

// sender words the message that a code and a label stand for.
func sender(code, label uint32) string {
	count, dtype := int(label&mostCount), colligo.DType((code-2)>>mixBits)
	if count == mostCount {
		return fmt.Sprintf("%d or more %v elements", mostCount, dtype)
	}
	return fmt.Sprintf("%d %v elements with tag %d", count, dtype, ((code-2)^foldCount(count))&mix)
}

// remembered is how many receives back a message can be compared.
const remembered = 256

// eagerPair is a rank's knowledge of the messages between it and one peer. Both count slots and messages alike, unless one of
// them has captured some in a graph. Then numbers tell nothing any more.
type eagerPair struct {
	sentSlots, receivedSlots int
	awaited                  int // the slot, from 1, that the last send needs free last; 0: there was none
	sent, received           int // messages
	captured                 bool
	watched, settled         [streamorder.NumQueues]int // messages when the watchdog's event was recorded, and known to be done
	expected                 []expectation              // by number modulo remembered; made at the first receive
}

type expectation struct {
	number int
	message
}

// messages are the sends and receives of a rank, with its knowledge of each pair. They are used with the order's lock held.
type messages struct {
	*launcher
	pairs   [symheap.MaxRanks]eagerPair // by rank
	count   int                         // of args.eager, to be launched
	gathers bool                        // the messages of a block are launched together
	both    bool                        // they are two rendezvous messages that a peer and this rank send each other
	calls   []seam.Call                 // of the block
}

var exchangeEager = moveEntryOf(ptx.ExchangeEager)

// leastEager is how many bytes a slot has at least, if a message takes more than one.
const leastEager = 16 << 10

// begin is told the calls of a block. Messages go together, if no send can have to wait for its receiver.
func (m *messages) begin(calls []seam.Call) (together bool) {
	m.gathers, m.calls = m.gatherable(calls), calls
	m.both = m.gathers && m.isSendRecv(calls)
	return m.gathers
}

// end forgets the block.
func (m *messages) end() {
	m.drop()
	m.gathers, m.both, m.calls = false, false, nil
}

// gatherable reports whether all sends of a block have room in the eager buffers, if these are empty. Rendezvous messages need
// little.
func (m *messages) gatherable(calls []seam.Call) bool {
	var slots [symheap.MaxRanks]int
	for i := range calls {
		c := &calls[i]
		if c.Coll != plan.Send {
			continue
		}
		bytes := c.Count * c.DType.Size()
		if m.isRendezvous(bytes) {
			bytes = 0
		}
		if !m.postable(bytes) {
			return false
		}
		if slots[c.Peer] += m.eagerParts(bytes); slots[c.Peer] > symheap.EagerSlots {
			return false
		}
	}
	return true
}

// send copies a tensor into the eager buffer of a peer. It waits for a slot that is not free yet, so a rank that sends much
// needs the receiver. Messages of a pair arrive in the order in which they were sent, and must be received in that order. A
// tag does not let a receive overtake.
func (m *messages) send(t cuda.Thread, c *seam.Call, s cuda.Stream) error {
	p, bytes := &m.pairs[c.Peer], c.Count*c.DType.Size()
	if err := p.note(t, s); err != nil {
		return err
	}
	p.sent++
	if m.isRendezvous(bytes) {
		return m.sendRendezvous(t, c, s)
	}
	return m.fill(t, c, bytes, s)
}

// receive copies a message from this rank's eager buffer to the tensor.
func (m *messages) receive(t cuda.Thread, c *seam.Call, s cuda.Stream) error {
	if c.Peer == plan.None {
		return errors.New("a GPU has to be told which rank it waits for") // pg has refused it
	}
	p, bytes := &m.pairs[c.Peer], c.Count*c.DType.Size()
	if err := p.note(t, s); err != nil {
		return err
	}
	p.expect(messageOf(c))
	if m.isRendezvous(bytes) {
		return m.receiveRendezvous(t, c, s)
	}
	return m.empty(t, c, bytes, s)
}

// fill puts so many bytes of a message into slots.
func (m *messages) fill(t cuda.Thread, c *seam.Call, bytes int, s cuda.Stream) error {
	p, of := &m.pairs[c.Peer], messageOf(c)
	label := of.label(p.number(p.sent))
	if !m.postable(bytes) {
		if err := m.post(t, s); err != nil {
			return err
		}
		return m.fillSlots(t, c, label, s)
	}
	x := m.nextMessage(m.rank, c.Peer, p.sentSlots, bytes)
	x.At, x.Code, x.Label, x.Receives = uint64(devmem.Address(c.In)), of.code(), label, 0
	p.sentSlots += int(x.Parts)
	p.awaited = (p.sentSlots-1)%symheap.EagerSlots + 1
	return m.hand(t, s)
}

// empty takes so many bytes of a message from slots.
func (m *messages) empty(t cuda.Thread, c *seam.Call, bytes int, s cuda.Stream) error {
	p := &m.pairs[c.Peer]
	if !m.postable(bytes) {
		if err := m.post(t, s); err != nil {
			return err
		}
		return m.emptySlots(t, c, s)
	}
	x := m.nextMessage(c.Peer, m.rank, p.receivedSlots, bytes)
	x.At, x.Code, x.Receives = uint64(devmem.Address(c.Out)), messageOf(c).code(), 1
	p.receivedSlots += int(x.Parts)
	return m.hand(t, s)
}

// postable reports whether a kernel carries a message of so many bytes.
func (m *messages) postable(bytes int) bool {
	return !m.serial && bytes <= symheap.EagerSlots*min(m.layout.EagerSlot, symheap.EagerMost)
}

// eagerPart returns how many bytes of a message go to a slot: a short one is dealt to some blocks.
func (m *messages) eagerPart(bytes int) int {
	if !m.postable(bytes) {
		return m.layout.EagerSlot
	}
	return min(max(up((bytes+messageWaits-1)/messageWaits, 16), leastEager), m.layout.EagerSlot)
}

// eagerParts returns how many slots a message takes.
func (m *messages) eagerParts(bytes int) int {
	return max((bytes+m.eagerPart(bytes)-1)/m.eagerPart(bytes), 1)
}

// nextMessage returns the next message of the launch to come. So many slots of the pair come before it.
func (m *messages) nextMessage(from, to, before, bytes int) *ptx.Message {
	data, arrived, free := m.layout.EagerAt(from, to, 0)
	tags, _ := m.layout.EagerTags(from, 0)
	sender, receiver := uint64(m.heap.Peer(from)), uint64(m.heap.Peer(to))
	x := &m.args.eager.Messages[m.count]
	m.count++
	x.Data, x.Arrived, x.Free, x.Tags = receiver+uint64(data), receiver+uint64(arrived), sender+uint64(free), receiver+uint64(tags)
	x.Slot, x.Part, x.First, x.Slots = uint32(m.layout.EagerSlot), uint32(m.eagerPart(bytes)), uint32(before%symheap.EagerSlots), symheap.EagerSlots
	x.Bytes, x.Parts, x.Peer = uint64(bytes), uint32(m.eagerParts(bytes)), uint32(from+to-m.rank)
	return x
}

// hand launches the messages at hand, unless a block may add more.
func (m *messages) hand(t cuda.Thread, s cuda.Stream) error {
	if m.gathers && m.count < ptx.MostMessages {
		return nil
	}
	return m.post(t, s)
}

// post launches the messages at hand. A peer may be behind a collective that needs the multiprocessors of this device, so few
// blocks wait at once. Sends and receives are in one launch, or in two side by side. Messages of a peer follow one another, and
// the slots of a pair are a multiple of messageWaits. So one block always serves the same slots. The launch is no graph, for
// the same reason as that of a rendezvous message.
func (m *messages) post(t cuda.Thread, s cuda.Stream) error {
	if m.count == 0 {
		return nil
	}
	a, parts, longest, blocks := &m.args.eager, 0, 0, messageWaits/2
	for i := range a.Messages[:m.count] {
		x := &a.Messages[i]
		parts, longest = parts+int(x.Parts), max(longest, int(min(x.Bytes, uint64(x.Part))))
	}
	if m.gathers {
		blocks = messageWaits
	}
	grid := cuda.Grid{Blocks: uint32(min(parts, blocks)), Threads: uint32(min(up(max((longest+15)/16, 1), 32), 512))}
	err := m.code.launchOnce(t, m.code.move(exchangeEager), grid, unsafe.Pointer(a), s)
	m.drop()
	if err != nil {
		return err
	}
	return m.order.Throttle(t, s, 1)
}

// drop forgets the messages at hand.
func (m *messages) drop() {
	for i := range m.args.eager.Messages[:m.count] {
		m.args.eager.Messages[i].Parts = 0
	}
	m.count = 0
}

// fillSlots has the stream copy a message to slots.
func (m *messages) fillSlots(t cuda.Thread, c *seam.Call, label uint32, s cuda.Stream) error {
	p, src, code, bytes := &m.pairs[c.Peer], devmem.Address(c.In), messageOf(c).code(), c.Count*c.DType.Size()
	for off := 0; off == 0 || off < bytes; off += m.layout.EagerSlot {
		n, slot := min(m.layout.EagerSlot, bytes-off), p.sentSlots%symheap.EagerSlots
		p.sentSlots++
		data, arrived, free := m.layout.EagerAt(m.rank, c.Peer, slot)
		d := streamorder.On(t)
		d.Wait32(s, m.heap.Address(free), 1)
		d.Write32(s, m.heap.Address(free), 0)
		if n > 0 {
			d.Copy(m.heap.PeerAddress(c.Peer, data), src+cuda.Pointer(off), n, s)
		}
		if off == 0 {
			checkAt, labelAt := m.layout.EagerTags(m.rank, slot)
			d.Write32(s, m.heap.PeerAddress(c.Peer, labelAt), label)
			d.Write32(s, m.heap.PeerAddress(c.Peer, checkAt), mostCode-code)
		}
		d.Write32(s, m.heap.PeerAddress(c.Peer, arrived), code)
		d.Do(func() error { return m.order.Throttle(t, s, 6) })
		if d.Err != nil {
			return d.Err
		}
		code = 1
	}
	return nil
}

// emptySlots has the stream copy a message from slots, and wait until the sender is trusted. Once the sender's streams are
// released it is not: they may have filled the slots again before this stream copied the message.
func (m *messages) emptySlots(t cuda.Thread, c *seam.Call, s cuda.Stream) error {
	p, dst, code, bytes := &m.pairs[c.Peer], devmem.Address(c.Out), messageOf(c).code(), c.Count*c.DType.Size()
	for off := 0; off == 0 || off < bytes; off += m.layout.EagerSlot {
		n, slot := min(m.layout.EagerSlot, bytes-off), p.receivedSlots%symheap.EagerSlots
		p.receivedSlots++
		data, arrived, free := m.layout.EagerAt(c.Peer, m.rank, slot)
		d := streamorder.On(t)
		d.Wait32(s, m.heap.Address(arrived), code)
		if off == 0 {
			check, _ := m.layout.EagerTags(c.Peer, slot)
			d.Wait32(s, m.heap.Address(check), mostCode-code)
		}
		d.Write32(s, m.heap.Address(arrived), 0)
		if n > 0 {
			d.Copy(dst+cuda.Pointer(off), m.heap.Address(data), n, s)
		}
		d.Write32(s, m.heap.PeerAddress(c.Peer, free), 1)
		d.Do(func() error { return m.order.Throttle(t, s, 5) })
		if d.Err != nil {
			return d.Err
		}
		code = 1
	}
	return t.Wait32(s, m.heap.Address(m.layout.TrustedAt(c.Peer)), 1)
}

// note remembers that a graph captures messages.
func (p *eagerPair) note(t cuda.Thread, s cuda.Stream) error {
	captured, _, err := streamorder.Capture(t, s)
	p.captured = p.captured || captured
	return err
}

// number is n while numbers mean something, else 0.
func (p *eagerPair) number(n int) int {
	if p.captured {
		return 0
	}
	return n
}

func (p *eagerPair) expect(of message) {
	if p.expected == nil {
		p.expected = make([]expectation, remembered)
	}
	p.received++
	p.expected[p.received%remembered] = expectation{p.received, of}
}
