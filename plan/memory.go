package plan

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

// memory maps ranges of elements to values. Segments are sorted; each reaches to the next one's begin. They lie in two stacks
// with a gap between them, where the last write was: plans write most ranges beside the range before.
type memory struct {
	len    int
	before []segment // ascending
	behind []segment // descending
}

type segment struct {
	off int
	val value
}

func newMemory(n int) memory { return memory{len: n, before: []segment{{0, value{}}}} }

func (m *memory) count() int { return len(m.before) + len(m.behind) }

func (m *memory) segment(i int) *segment {
	if i < len(m.before) {
		return &m.before[i]
	}
	return &m.behind[m.count()-1-i]
}

func (m *memory) end(i int) int {
	if i+1 < m.count() {
		return m.segment(i + 1).off
	}
	return m.len
}

// find returns the segment that holds element off. It looks near the gap first, in strides that double.
func (m *memory) find(off int) int {
	lo := len(m.before) - 1
	hi := lo + 1
	for stride := 1; m.before[lo].off > off; stride *= 2 {
		lo, hi = max(lo-stride, 0), lo
	}
	for stride := 1; hi < m.count() && m.segment(hi).off <= off; stride *= 2 {
		lo, hi = hi, min(hi+stride, m.count())
	}
	for lo+1 < hi { // segment lo begins at off or before, segment hi behind it
		if mid := (lo + hi) / 2; m.segment(mid).off <= off {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// read appends the values of n elements from off on to buf.
func (m *memory) read(buf []piece, off, n int) []piece {
	begin := len(buf)
	for i := m.find(off); n > 0; i++ {
		s := m.segment(i)
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
	if m.segment(i).off == off && m.end(i) == end && len(pieces) == 1 {
		m.segment(i).val = pieces[0].val
		return
	}
	m.split(i)
	if last := len(m.before) - 1; m.before[last].off < off {
		m.behind = append(m.behind, segment{off, m.before[last].val.skip(off - m.before[last].off)})
	} else {
		m.behind = append(m.behind, m.before[last])
		m.before = m.before[:last]
	}
	m.drop(end)
	for at := off; len(pieces) > 0; pieces = pieces[1:] {
		if pieces[0].len > 0 {
			m.before = extend(m.before, segment{at, pieces[0].val})
			at += pieces[0].len
		}
	}
	if n := len(m.behind); n > 0 && len(m.before) > 0 && follows(m.before[len(m.before)-1], m.behind[n-1]) {
		m.behind = m.behind[:n-1]
	}
}

// split moves the gap behind segment i.
func (m *memory) split(i int) {
	for len(m.before)-1 > i {
		last := len(m.before) - 1
		m.behind = append(m.behind, m.before[last])
		m.before = m.before[:last]
	}
	for len(m.before)-1 < i {
		last := len(m.behind) - 1
		m.before = append(m.before, m.behind[last])
		m.behind = m.behind[:last]
	}
}

// drop takes away what begins behind the gap up to an end.
func (m *memory) drop(end int) {
	for n := len(m.behind); n > 0 && m.behind[n-1].off < end; n-- {
		s, to := m.behind[n-1], m.len
		if n > 1 {
			to = m.behind[n-2].off
		}
		if to > end {
			m.behind[n-1] = segment{end, s.val.skip(end - s.off)}
			return
		}
		m.behind = m.behind[:n-1]
	}
}

// extend appends a segment, unless it continues the last one.
func extend(segs []segment, s segment) []segment {
	if n := len(segs); n > 0 && follows(segs[n-1], s) {
		return segs
	}
	return append(segs, s)
}

func follows(a, b segment) bool { return a.val.continues(b.off-a.off, b.val) }
