package plan

import (
	"slices"
	"sort"
)

// tree is a reduction: one rank's input, or two trees combined. Hashes stand for its form (up to the order of operands)
// and for the inputs it holds.
type tree struct {
	left, right *tree // nil for an input
	rank        int   // of an input
	inputs      int
	form, set   uint64
	done        bool // a step marked Last made it
}

func leaf(rank int) *tree {
	return &tree{rank: rank, inputs: 1, form: mix(mark(rank)), set: mark(rank)}
}

func combine(a, b *tree, last bool) *tree {
	form := mix(a.form + b.form + mix(a.form^b.form))
	return &tree{left: a, right: b, inputs: a.inputs + b.inputs, form: form, set: a.set + b.set, done: last}
}

// mark is the number that stands for a rank's input in sums.
func mark(rank int) uint64 { return mix(uint64(rank) + 1) }

// mix spreads bits (the finalizer of SplitMix64, Steele, Lea and Flood 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// count adds to holds[r] how often the tree holds rank r's input.
func (t *tree) count(holds map[int]int) {
	if t.left == nil {
		holds[t.rank]++
		return
	}
	t.left.count(holds)
	t.right.count(holds)
}

// value is what a range of elements holds: the tree over elements first, first+1, … of every input in it. A nil tree is
// undefined.
type value struct {
	tree  *tree
	first int
}

func (v value) skip(n int) value { return value{v.tree, v.first + n} }

// continues reports whether w is what follows n elements of v.
func (v value) continues(n int, w value) bool {
	if v.tree == nil || w.tree == nil {
		return v.tree == w.tree
	}
	return v.first+n == w.first && v.tree.form == w.tree.form && v.tree.done == w.tree.done
}

// piece is a value of some elements.
type piece struct {
	len int
	val value
}

// memory maps ranges of elements to values. Segments are sorted; each reaches to the next one's begin.
type memory struct {
	len  int
	segs []segment
}

type segment struct {
	off int
	val value
}

func newMemory(n int) memory { return memory{n, []segment{{0, value{}}}} }

func (m *memory) end(i int) int {
	if i+1 < len(m.segs) {
		return m.segs[i+1].off
	}
	return m.len
}

// find returns the segment that holds element off.
func (m *memory) find(off int) int {
	return sort.Search(len(m.segs), func(i int) bool { return m.segs[i].off > off }) - 1
}

// read appends the values of n elements from off on to buf.
func (m *memory) read(buf []piece, off, n int) []piece {
	begin := len(buf)
	for i := m.find(off); n > 0; i++ {
		s := m.segs[i]
		k := min(m.end(i)-off, n)
		val := s.val.skip(off - s.off)
		if last := len(buf) - 1; last >= begin && buf[last].val.continues(buf[last].len, val) {
			buf[last].len += k
		} else {
			buf = append(buf, piece{k, val})
		}
		off, n = off+k, n-k
	}
	return buf
}

// write puts pieces one after the other from element off on.
func (m *memory) write(off int, pieces []piece) {
	end := off
	for _, p := range pieces {
		end += p.len
	}
	if end == off {
		return
	}
	i := m.find(off)
	j := i
	for j < len(m.segs) && m.segs[j].off < end {
		j++
	}
	before, after := m.segs[i], m.segs[j-1]
	if before.off == off && m.end(j-1) == end && len(pieces) == 1 && j-i == 1 {
		m.segs[i].val = pieces[0].val
		return
	}
	var room [8]segment // enough for most, without a heap
	segs := room[:0]
	if before.off < off {
		segs = append(segs, before)
	} else if i > 0 {
		i--
		segs = append(segs, m.segs[i])
	}
	for at := off; len(pieces) > 0; pieces = pieces[1:] {
		if pieces[0].len > 0 {
			segs = extend(segs, segment{at, pieces[0].val})
			at += pieces[0].len
		}
	}
	if m.end(j-1) > end {
		segs = extend(segs, segment{end, after.val.skip(end - after.off)})
	} else if j < len(m.segs) {
		segs = extend(segs, m.segs[j])
		j++
	}
	m.segs = slices.Replace(m.segs, i, j, segs...)
}

// extend appends a segment, unless it continues the last one.
func extend(segs []segment, s segment) []segment {
	if n := len(segs); n > 0 && segs[n-1].val.continues(s.off-segs[n-1].off, s.val) {
		return segs
	}
	return append(segs, s)
}
