package peer

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/kernels"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/plan"
)

// A message travels through a mailbox slot by slot, each slot filled by a kernel and emptied by one, or by streams that wait for
// words and write them where a kernel may have to end before another begins, and where a message is too long for its mailbox. The
// first slot says what the message is, so that a receive takes nothing but what it asked for, and no host waits for another:
//
//	arrived   the code of the message, in the words of all slots: 1 for those after the first
//	check     mostCode less the code
//	label     which message it is, and its length, for the error's sake
//
// A long message, which would not fit into all slots at once, goes by lines (kernels: a broadcast between two) where devices are
// linked by NVLink and kernels may wait: then its first slot says what it is, and carries nothing. Its sender's stream waits until the
// receiver has freed that.
//
// Streams wait for "at least", so arrived and check together wait for equality; and both waits end when words are set
// to mostCode, which is how a failure ends them whatever they wait for.
const (
	mostCode  = kernels.MostCode
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

// mail is what a rank knows of the messages between it and one peer. Both count slots and messages alike, unless one of
// them has captured some in a graph: then numbers tell nothing any more.
type mail struct {
	sentSlots, receivedSlots int
	awaited                  int // the slot, from 1, that the last send needs free last; 0: there was none
	sent, received           int // messages
	captured                 bool
	marked, settled          [numQueues]int // messages when the watchdog's event was recorded, and known to be done
	expected                 []expectation  // by number modulo remembered; made at the first receive
}

type expectation struct {
	number int
	message
}

// inSlots returns how many bytes of a message go through the slots: all or none.
func (b *backend) inSlots(bytes int) int {
	if b.layout.mailBlocks > 0 && !b.serial && bytes > mailSlots*b.layout.mailSlot {
		return 0
	}
	return bytes
}

// letterWarps is how many warps a block has that carries a long message: they are spread over the multiprocessors.
const letterWarps = 4

// letter enqueues this rank's half of a long message, as its root or its last rank.
func (b *backend) letter(t cuda.Thread, peer int, end uint32, at cuda.Pointer, bytes int, s cuda.Stream) error {
	l, a, sends := &b.layout, &b.args.letter, end == kernels.LineRoot
	own, other := uint64(b.heap), uint64(b.peers[peer].at)
	a.Lines, a.Next = own+uint64(l.letterAt(peer, b.rank)), other+uint64(l.letterAt(b.rank, peer))
	a.Counts, a.Signs = own+uint64(l.letterCounts(b.rank, peer, sends)), own+uint64(l.letterSigns(b.rank, peer, sends))
	a.Told = other + uint64(l.letterSigns(peer, b.rank, true))
	if sends {
		a.Told = own + uint64(l.letterSigns(b.rank, peer, false)) // nobody is before it
	}
	a.In, a.Out, a.Bytes, a.Ends = uint64(at), uint64(at), uint64(bytes), end
	a.Before = uint32(b.place(peer))
	a.After = a.Before
	warps := min((bytes+511)/512, l.mailBlocks*kernels.LineWarps)
	grid := cuda.Grid{Blocks: uint32((warps + letterWarps - 1) / letterWarps), Threads: 32 * letterWarps}
	// It is no graph: a send and a receive run at the same time, which two launches of one graph do not.
	return b.code.launchOnce(t, b.code.move.broadcastLines, grid, unsafe.Pointer(a), s)
}

// send copies a tensor into the mailbox of a peer. It waits for a slot that is not free yet, so messages of more than mailSlots slots
// need their receiver. Messages of a pair arrive in the order in which they were sent, and must be received in that order: a tag does
// not let a receive overtake.
func (b *backend) send(t cuda.Thread, c *pg.Call, s cuda.Stream) error {
	m, of, bytes := &b.mails[c.Peer], messageOf(c), c.Count*c.DType.Size()
	if err := m.note(t, s); err != nil {
		return err
	}
	m.sent++
	carried, label := b.inSlots(bytes), of.label(m.number(m.sent))
	var err error
	if slots := b.postSlots(carried); slots > 0 {
		last := (m.sentSlots + slots - 1) % mailSlots
		_, _, free := b.layout.mailAt(b.rank, c.Peer, last)
		if err := b.admit(t, free, slots, s); err != nil {
			return err
		}
		m.awaited = last + 1
		x := b.nextMessage(b.rank, c.Peer, m.sentSlots, slots)
		x.At, x.Bytes, x.Code, x.Label, x.Receives = uint64(addressOf(c.In)), uint64(carried), of.code(), label, 0
		m.sentSlots += slots
		err = b.hand(t, carried < bytes, s)
	} else {
		err = first(b.post(t, s), b.fillSlots(t, c, carried, label, s))
	}
	if err != nil || carried == bytes {
		return err
	}
	_, _, free := b.layout.mailAt(b.rank, c.Peer, m.awaited-1)
	return first(t.Wait32(s, b.heap+cuda.Pointer(free), 1), b.letter(t, c.Peer, kernels.LineRoot, addressOf(c.In), bytes, s))
}

// receive copies what a peer has put into this rank's mailbox to the tensor.
func (b *backend) receive(t cuda.Thread, c *pg.Call, s cuda.Stream) error {
	if c.Peer == plan.None {
		return errors.New("a GPU has to be told which rank it waits for") // pg has refused it
	}
	m, of, bytes := &b.mails[c.Peer], messageOf(c), c.Count*c.DType.Size()
	if err := m.note(t, s); err != nil {
		return err
	}
	m.expect(of)
	carried := b.inSlots(bytes)
	var err error
	if slots := b.postSlots(carried); slots > 0 {
		_, arrived, _ := b.layout.mailAt(c.Peer, b.rank, m.receivedSlots%mailSlots)
		if err := b.admit(t, arrived, slots, s); err != nil {
			return err
		}
		x := b.nextMessage(c.Peer, b.rank, m.receivedSlots, slots)
		x.At, x.Bytes, x.Code, x.Receives = uint64(addressOf(c.Out)), uint64(carried), of.code(), 1
		m.receivedSlots += slots
		err = b.hand(t, carried < bytes, s)
	} else {
		err = first(b.post(t, s), b.emptySlots(t, c, carried, s))
	}
	if err != nil || carried == bytes {
		return err
	}
	return b.letter(t, c.Peer, kernels.LineLast, addressOf(c.Out), bytes, s)
}

// admit has the stream wait for the word of a message that has more slots than one, and sees to it that few others wait in one launch:
// a peer that is behind a collective must not keep that from the multiprocessors it needs. The word is 1 or more when a receive's
// first slot is full, or a send's last one free.
func (b *backend) admit(t cuda.Thread, word, slots int, s cuda.Stream) error {
	if slots > 1 {
		return first(b.post(t, s), t.Wait32(s, b.heap+cuda.Pointer(word), 1))
	}
	waiting := 0
	for i := range b.args.mail.Messages[:b.messages] {
		if b.args.mail.Messages[i].Blocks == 1 {
			waiting++
		}
	}
	if waiting < mailWaits {
		return nil
	}
	return b.post(t, s)
}

// postSlots returns how many slots a kernel fills or empties for so many bytes, 0 if it is not for a kernel.
func (b *backend) postSlots(bytes int) int {
	slots := max((bytes+b.layout.mailSlot-1)/b.layout.mailSlot, 1)
	if b.serial || slots > mailSlots || bytes > mailSlots*mailMost {
		return 0
	}
	return slots
}

// nextMessage is the next one of the launch to come, of which so many slots of the pair come before it.
func (b *backend) nextMessage(from, to, before, slots int) *kernels.Message {
	data, arrived, free := b.layout.mailAt(from, to, 0)
	tags, _ := b.layout.mailTags(from, 0)
	sender, receiver := uint64(b.peers[from].at), uint64(b.peers[to].at)
	x := &b.args.mail.Messages[b.messages]
	b.messages++
	x.Data, x.Arrived, x.Free, x.Tags = receiver+uint64(data), receiver+uint64(arrived), sender+uint64(free), receiver+uint64(tags)
	x.Slot, x.First, x.Slots, x.Blocks = uint32(b.layout.mailSlot), uint32(before%mailSlots), mailSlots, uint32(slots)
	x.Peer = uint32(from + to - b.rank)
	return x
}

// hand launches the messages at hand, unless it is a block's that takes more; with now it does.
func (b *backend) hand(t cuda.Thread, now bool, s cuda.Stream) error {
	if b.block.gathers && !now && b.messages < kernels.MostMessages {
		return nil
	}
	return b.post(t, s)
}

// post launches the messages at hand. It is no graph, for the same reason as a letter.
func (b *backend) post(t cuda.Thread, s cuda.Stream) error {
	if b.messages == 0 {
		return nil
	}
	a := &b.args.mail
	blocks, longest := uint32(0), uint64(0)
	for i := range a.Messages[:b.messages] {
		blocks += a.Messages[i].Blocks
		longest = max(longest, a.Messages[i].Bytes)
	}
	lines := (min(int(longest), b.layout.mailSlot) + 15) / 16
	err := b.code.launchOnce(t, b.code.move.exchangeMail, cuda.Grid{Blocks: blocks, Threads: uint32(min(up(max(lines, 1), 32), 512))}, unsafe.Pointer(a), s)
	b.dropMessages()
	return first(err, b.weigh(t, s, 1))
}

// dropMessages forgets those at hand.
func (b *backend) dropMessages() {
	for i := range b.args.mail.Messages[:b.messages] {
		b.args.mail.Messages[i].Blocks = 0
	}
	b.messages = 0
}

// fillSlots has the stream copy to slots.
func (b *backend) fillSlots(t cuda.Thread, c *pg.Call, bytes int, said uint32, s cuda.Stream) error {
	m, src, to, code := &b.mails[c.Peer], addressOf(c.In), b.peers[c.Peer].at, messageOf(c).code()
	for off := 0; off == 0 || off < bytes; off += b.layout.mailSlot {
		n := min(b.layout.mailSlot, bytes-off)
		slot := m.sentSlots % mailSlots
		data, arrived, free := b.layout.mailAt(b.rank, c.Peer, slot)
		m.sentSlots++
		if err := b.fillSlot(t, s, to+cuda.Pointer(data), src+cuda.Pointer(off), n, b.heap+cuda.Pointer(free)); err != nil {
			return err
		}
		if off == 0 {
			check, label := b.layout.mailTags(b.rank, slot)
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

// emptySlots has the stream copy from slots.
func (b *backend) emptySlots(t cuda.Thread, c *pg.Call, bytes int, s cuda.Stream) error {
	m, dst, from, code := &b.mails[c.Peer], addressOf(c.Out), b.peers[c.Peer].at, messageOf(c).code()
	for off := 0; off == 0 || off < bytes; off += b.layout.mailSlot {
		n := min(b.layout.mailSlot, bytes-off)
		slot := m.receivedSlots % mailSlots
		data, arrived, free := b.layout.mailAt(c.Peer, b.rank, slot)
		m.receivedSlots++
		if err := t.Wait32(s, b.heap+cuda.Pointer(arrived), code); err != nil {
			return err
		}
		if off == 0 {
			check, _ := b.layout.mailTags(c.Peer, slot)
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
func (m *mail) note(t cuda.Thread, s cuda.Stream) error {
	captured, _, err := capture(t, s)
	m.captured = m.captured || captured
	return err
}

// number is n while numbers mean something, else 0.
func (m *mail) number(n int) int {
	if m.captured {
		return 0
	}
	return n
}

func (m *mail) expect(of message) {
	if m.expected == nil {
		m.expected = make([]expectation, remembered)
	}
	m.received++
	m.expected[m.received%remembered] = expectation{m.received, of}
}
