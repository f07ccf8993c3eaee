package watchdog

import (
	"github.com/colligo-go/colligo/pg/flight"
	"github.com/colligo-go/colligo/pg/internal/op"
	"github.com/colligo-go/colligo/pg/internal/oplog"
)

// block is the operations of a coalescing block: in each queue those from one place to another, of which the latter is none.
type block struct {
	open     bool // more are to come, and to does not count
	from, to [numKinds]int
	err      error // of the first that has failed
}

// BeginBlock notes that a block begins. The caller holds the order of the group's operations until EndBlock.
func (d *Devices) BeginBlock() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.block = block{open: true}
	for q := range d.block.from {
		d.block.from[q] = d.queues[q].at
	}
}

// DropBlock forgets the block that has begun.
func (d *Devices) DropBlock() {
	d.mu.Lock()
	d.block = block{}
	d.mu.Unlock()
}

// EndBlock takes over the operation that stands for all that were added since BeginBlock. It is over when they are, with the error of
// the first that has failed.
func (d *Devices) EndBlock(o *op.Op) {
	d.queueBlock(o)
	d.start()
}

// queueBlock puts the operation that stands for a block into its queue. The caller holds the order.
func (d *Devices) queueBlock(o *op.Op) {
	d.mu.Lock()
	defer d.mu.Unlock()
	b := d.block
	d.block, b.open = block{}, false
	for q := range b.to {
		b.to[q] = d.queues[q].at
	}
	e := entry{id: flight.ID(o.ID), number: o.Number, bytes: o.Bytes(), kind: o.Type(), held: d.held}
	if d.held || d.log.Hooks.Any() {
		e.more = &more{record: oplog.EntryOf(o, nil)}
	}
	all := &d.queues[blocks]
	all.makeRoom(true)
	*all.entry(all.at), *all.block(all.at) = e, b
	all.add()
}

// failed notes the error of the operation n behind the oldest of a queue, for the block that it is of.
func (d *Devices) failed(q, n int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	gone, added := d.queues[q].ends()
	at := gone + n
	note := func(b *block, to int) {
		if b.err == nil && b.from[q] <= at && at < to {
			b.err = err
		}
	}
	if d.block.open {
		note(&d.block, added)
	}
	all := &d.queues[blocks]
	gone, added = all.ends()
	for i := gone; i < added; i++ {
		b := all.block(i)
		note(b, b.to[q])
	}
}

// blockOver reports whether all operations of a block are over, and the error of the first that has failed. Its argument is one of the
// copies in d.blocks. Only the holder of eyes concludes operations, so a copy misses none.
func (d *Devices) blockOver(b *block) (bool, error) {
	for q := range b.to {
		if d.through[q] < b.to[q] {
			return false, nil
		}
	}
	return true, b.err
}
