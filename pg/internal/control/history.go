package control

import (
	"sort"
	"time"

	"github.com/colligo-go/colligo/transport"
)

// Kernels do not compare what ranks have called. If the lengths differ, they may end all the same, with wrong results. So each rank tells
// the next one which collective on devices it has called last, with a hash of it and of all before. The next rank compares the hash with
// its own. A rank tells once in 20 ms at most, and once more when it begins to close its group.

// historyPause is how long a rank waits before it tells the next one.
const historyPause = 20 * time.Millisecond

// TellHistorySoon has the next rank told of the collectives on devices that this rank has entered. It is called for the first of them
// since the next rank was told, with the lock of the order of operations on devices held.
func (c *Channel) TellHistorySoon() {
	switch {
	case c.config.Size == 1 || c.mesh.Load() == nil:
	case c.teller == nil:
		c.teller = time.AfterFunc(historyPause, c.TellHistory)
	default:
		c.teller.Reset(historyPause)
	}
}

// TellHistory tells the next rank now, if there is something that it has not been told.
func (c *Channel) TellHistory() {
	if m := c.Progress.untold(c.config.Describe); m != nil && c.config.Failed() == nil {
		c.TellNext(m)
	}
}

// untold returns the message for the next rank. It is nil if that rank has been told before.
func (p *Progress) untold(describe func(transport.Call) string) *Message {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := &p.devices
	if !d.untold {
		return nil
	}
	p.catchUp()
	d.untold = false
	m := &Message{Kind: Called, Seq: d.entered, History: d.history}
	if call, ok := p.callAt(d.entered); ok {
		m.Call = describe(call)
	}
	return m
}

// HistoryAt returns the hash of the collectives on devices up to a sequence number. It is 0 if that one was on the CPU, or too long ago.
func (p *Progress) HistoryAt(seq uint64) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.catchUp()
	d := &p.devices
	if d.past == nil {
		return 0
	}
	kept := min(d.n, pastHistories)
	at := func(i int) pastHistory { return d.past[(d.n-kept+uint64(i))%pastHistories] }
	i := sort.Search(int(kept), func(i int) bool { return at(i).seq >= seq })
	if i == int(kept) || at(i).seq != seq {
		return 0
	}
	return at(i).hash
}
