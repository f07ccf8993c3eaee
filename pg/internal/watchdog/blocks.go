package watchdog

import (
	"time"

	"github.com/colligo-go/colligo/pg/flight"
	"github.com/colligo-go/colligo/pg/internal/op"
	"github.com/colligo-go/colligo/pg/internal/oplog"
)

// block is the operations of a coalescing block: in each queue those from one place to another, of which the latter is none.
type block struct {
	from, to [numKinds]int
	err      error // of the first that has failed
}

// BeginBlock notes that a block begins. The caller holds the order of the group's operations until EndBlock.
func (d *Devices) BeginBlock() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.block = new(block)
	for q := range d.block.from {
		d.block.from[q] = d.queues[q].added()
	}
}

// EndBlock takes over the operation that stands for all that were added since BeginBlock. It is over when they are, with the error of
// the first that has failed.
func (d *Devices) EndBlock(o *op.Op) {
	d.mu.Lock()
	defer d.mu.Unlock()
	b := d.block
	d.block = nil
	for q := range b.to {
		b.to[q] = d.queues[q].added()
	}
	e := entry{id: flight.ID(o.ID), number: o.Number, kind: o.Type(), held: d.held, more: &more{record: oplog.EntryOf(o, nil, time.Time{}), block: b}}
	d.queues[blocks].entries = append(d.queues[blocks].entries, e)
	d.start()
}

// failed notes the error of the operation n behind the oldest of a queue, for the block that it is of.
func (d *Devices) failed(q, n int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := d.queues[q].gone + n
	note := func(b *block, to int) {
		if b != nil && b.err == nil && b.from[q] <= at && at < to {
			b.err = err
		}
	}
	if d.block != nil {
		note(d.block, d.queues[q].added())
	}
	all := &d.queues[blocks]
	for i := all.head; i < len(all.entries); i++ {
		b := all.entries[i].more.block
		note(b, b.to[q])
	}
}

// through reports whether all operations of a block are over, and the error of the first that has failed.
func (d *Devices) through(b *block) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for q := range b.to {
		if d.queues[q].gone < b.to[q] {
			return false, nil
		}
	}
	return true, b.err
}
