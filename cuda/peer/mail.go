package peer

import (
	"fmt"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/plan"
)

// mailCounts are the slots that each pair of ranks has used. Both ranks of a pair count alike.
type mailCounts struct{ sent, received [maxRanks]int }

// send copies a tensor into the mailbox of a peer, slot by slot. Its stream waits for a slot that is not free yet, so
// messages of more than mailSlots slots need their receiver. Tags are not looked at: messages of a pair arrive in order.
func (b *backend) send(t cuda.Thread, c *pg.Call, s cuda.Stream) error {
	src, bytes := addressOf(c.In), c.Count*c.DType.Size()
	peer := b.peers[c.Peer].at
	for off := 0; off < bytes; off += b.layout.mailSlot {
		n := min(b.layout.mailSlot, bytes-off)
		data, arrived, free := b.layout.mailAt(b.rank, c.Peer, b.mails.sent[c.Peer]%mailSlots)
		b.mails.sent[c.Peer]++
		if err := first(
			t.Wait32(s, b.heap+cuda.Pointer(free), 1),
			t.Write32(s, b.heap+cuda.Pointer(free), 0),
			t.Copy(peer+cuda.Pointer(data), src+cuda.Pointer(off), n, s),
			t.Write32(s, peer+cuda.Pointer(arrived), 1),
			b.weigh(t, s, 4)); err != nil {
			return err
		}
	}
	return nil
}

// receive copies what a peer has put into this rank's mailbox to the tensor.
func (b *backend) receive(t cuda.Thread, c *pg.Call, s cuda.Stream) error {
	if c.Peer == plan.None {
		return fmt.Errorf("a receive from any rank has no form on a device")
	}
	dst, bytes := addressOf(c.Out), c.Count*c.DType.Size()
	peer := b.peers[c.Peer].at
	for off := 0; off < bytes; off += b.layout.mailSlot {
		n := min(b.layout.mailSlot, bytes-off)
		data, arrived, free := b.layout.mailAt(c.Peer, b.rank, b.mails.received[c.Peer]%mailSlots)
		b.mails.received[c.Peer]++
		if err := first(
			t.Wait32(s, b.heap+cuda.Pointer(arrived), 1),
			t.Write32(s, b.heap+cuda.Pointer(arrived), 0),
			t.Copy(dst+cuda.Pointer(off), b.heap+cuda.Pointer(data), n, s),
			t.Write32(s, peer+cuda.Pointer(free), 1),
			b.weigh(t, s, 4)); err != nil {
			return err
		}
	}
	return nil
}
