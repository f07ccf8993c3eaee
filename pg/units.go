package pg

import (
	"time"

	"github.com/colligo-go/colligo/pg/internal/op"
)

// unit is what one record of a block on a device stands for: one operation, or several that the CPU would carry out as one. In a group of
// one rank the CPU has units, too.
type unit struct {
	record *op.Op
	ops    []*op.Op // nil: the one of the record
}

// blockRoom is what a block on a device is kept in while it is given to the backend. That of calls that block is used again.
type blockRoom struct {
	units   []unit
	records []*op.Op  // of the units
	block   op.Block  // stands for all units
	called  time.Time // when an asynchronous call began
}

// cut cuts a block into units. Where operations are not launched together each is a unit, for each has a Pending.
func (r *blockRoom) cut(ops []*op.Op, grouped bool) []unit {
	for len(ops) > 0 {
		n := 1
		if grouped {
			n = op.Run(ops)
		}
		if n == 1 {
			r.units = append(r.units, unit{record: ops[0]})
		} else {
			r.units = append(r.units, unit{op.Record(ops[:n]), ops[:n:n]})
		}
		ops = ops[n:]
	}
	return r.units
}

// standing returns what stands for all units.
func (r *blockRoom) standing() *op.Block {
	for i := range r.units {
		r.records = append(r.records, r.units[i].record)
	}
	r.block.Of(r.records)
	return &r.block
}

// clear empties the room. The operations are over for their caller, and no longer refer to it.
func (r *blockRoom) clear() {
	clear(r.units)
	clear(r.records)
	r.units, r.records = r.units[:0], r.records[:0]
	r.block.Reset()
}
