package cudasim

// The shadow of an allocation remembers for every byte the last write and the reads since. Bytes that were accessed
// together share a cell; a page of pageBytes has one cell, or a list of parts.
const pageBytes = 4096

type accessKind uint8

const (
	plain     accessKind = iota
	flag                 // release, acquire, volatile and stream accesses to words
	validated            // LL, LL128 and sentinel lines stored, and taken
	clearing             // lines cleared
	copied               // stored by a copy: an actor that sees a line of the copy knows that the copy was made
	source               // read by a copy: over when a line of the copy is seen
)

// An access is one actor's touch of some bytes.
type access struct {
	by    *origin
	slot  int32
	epoch uint32
	block int32 // -1 outside blocks
	kind  accessKind
}

// A cell is immutable.
type cell struct {
	write access // by is nil if no actor has written
	stamp *stamp // that the write published
	reads []access
}

type part struct {
	end int // in the page
	c   *cell
}

type page struct {
	whole *cell
	parts []part // ascending, the last ends with the page; empty if whole counts
	flags *flagPage
}

type shadow struct{ pages []page }

func newShadow(bytes int) shadow { return shadow{make([]page, (bytes+pageBytes-1)/pageBytes)} }

// visit calls f for every piece of [lo, hi) that has one cell, and puts the cell that f returns in its place.
//
//go:norace
func (s *shadow) visit(lo, hi int, f func(*cell, int, int) *cell) {
	for lo < hi {
		base := lo / pageBytes * pageBytes
		end := min(hi, base+pageBytes)
		p := &s.pages[lo/pageBytes]
		if len(p.parts) == 0 && lo == base && end == base+pageBytes {
			p.whole = f(p.whole, lo, end)
		} else {
			p.visit(base, lo-base, end-base, f)
		}
		lo = end
	}
}

//go:norace
func (p *page) visit(base, lo, hi int, f func(*cell, int, int) *cell) {
	if len(p.parts) == 0 {
		p.parts = append(p.parts, part{pageBytes, p.whole})
		p.whole = nil
	}
	first := p.at(lo)
	var room [8]part
	fresh := room[:0]
	start := 0
	if first > 0 {
		start = p.parts[first-1].end
	}
	if start < lo {
		fresh = append(fresh, part{lo, p.parts[first].c})
	}
	last := first
	for at := lo; at < hi; last++ {
		e := p.parts[last]
		end := min(e.end, hi)
		fresh = appendPart(fresh, part{end, f(e.c, base+at, base+end)})
		if e.end > hi {
			fresh = appendPart(fresh, e)
		}
		at = end
	}
	p.splice(first, last, fresh)
}

// at returns the index of the part that has an offset.
//
//go:norace
func (p *page) at(offset int) int {
	lo, hi := 0, len(p.parts)
	for lo < hi {
		if mid := (lo + hi) / 2; p.parts[mid].end <= offset {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// appendPart joins parts of one cell.
//
//go:norace
func appendPart(parts []part, e part) []part {
	if n := len(parts); n > 0 && parts[n-1].c == e.c {
		parts[n-1].end = e.end
		return parts
	}
	return append(parts, e)
}

//go:norace
func (p *page) splice(first, last int, fresh []part) {
	if first > 0 && p.parts[first-1].c == fresh[0].c {
		first--
	}
	if last < len(p.parts) && p.parts[last].c == fresh[len(fresh)-1].c {
		fresh[len(fresh)-1].end = p.parts[last].end
		last++
	}
	p.replace(first, last, fresh)
	if len(p.parts) == 1 {
		p.whole = p.parts[0].c
		p.parts[0].c = nil
		p.parts = p.parts[:0] // the array will be needed again
	}
}

// replace puts fresh parts in the place of those from first up to last.
//
//go:norace
func (p *page) replace(first, last int, fresh []part) {
	before, more := len(p.parts), len(fresh)-(last-first)
	switch {
	case more > 0:
		p.parts = append(p.parts, fresh[:more]...) // for the room
		for i := before - 1; i >= last; i-- {
			p.parts[i+more] = p.parts[i]
		}
	case more < 0:
		for i := last; i < before; i++ {
			p.parts[i+more] = p.parts[i]
		}
		clear(p.parts[before+more:])
		p.parts = p.parts[:before+more]
	}
	for i, e := range fresh {
		p.parts[first+i] = e
	}
}
