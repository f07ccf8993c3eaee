package pg

// A place is where an operation stands in the order of its group, the same on all ranks. It is what frames and notes carry:
// the number that the operation has among the program's collectives, as c10d counts them, shifted by placeBits, and below
// that how many collectives without a number of their own have come since: pg's own, and the later ones of a block.
const placeBits = 16

// after returns the next place, of an operation that has a number or has not.
func after(place uint64, numbered bool) uint64 {
	if !numbered {
		return place + 1
	}
	return (place>>placeBits + 1) << placeBits
}

// next returns the place of the collective that is called next.
func (g *Group) next() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return after(g.seq, true)
}

// numberOf returns the number of a place, for people and for the recorder.
func numberOf(place uint64) uint64 { return place >> placeBits }

// split returns the number of a place and what comes after it.
func split(place uint64) (number, more uint64) { return place >> placeBits, place & (1<<placeBits - 1) }
