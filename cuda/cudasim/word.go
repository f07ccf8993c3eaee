package cudasim

// A word is a flag's values in the order in which they were stored, and what each store published. Memory order lets a
// load return any value from the last one on that the loader knows of. A load returns the oldest, the next load of the
// same actor the next; a wait ends with the oldest value that fits. So the order that a flag
// gives does not depend on how late an actor looked. A wait for too small a number is found under every seed.
//
// Of host memory a load returns what is there: the host stores and looks without a call. A value that the host has stored
// publishes what the host knew when the word was next looked at.
type word struct {
	at     int              // in its memory
	values []posted         // the first is what was there before the first store
	first  int              // index of values[0] in the word's life
	read   map[int]*reading // by slot
	recent *reading
}

// A reading is an actor's last load of a word.
type reading struct {
	slot     int
	index    int    // of the value, in the word's life
	last     int    // index of the word's last value at the time
	epoch    uint32 // of the actor at the time
	acquired bool   // the actor has joined what the value's store has published; else it has observed that
}

type posted struct {
	value     uint32
	published *stamp // nil: known to all
}

const mostValues = 64 // kept of a word

// append adds a stored value to a word, which held before.
//
//go:norace
func (s *Sim) append(m *memory, at int, before, value uint32, published *stamp) {
	w := s.flagAt(m, at, before)
	w.add(value, published)
}

//go:norace
func (w *word) add(value uint32, published *stamp) {
	w.values = append(w.values, posted{value, published})
	if len(w.values) > mostValues {
		w.values = w.values[1:]
		w.first++
	}
}

// flagAt returns the word whose value is now. In host memory, what nobody has stored by the table the host has.
//
//go:norace
func (s *Sim) flagAt(m *memory, at int, now uint32) *word {
	w := m.flag(at)
	if w == nil {
		w = &word{at: at, values: []posted{{now, nil}}}
		m.keep(w)
		if m.host() && now != 0 {
			w.values[0].published = s.hostStamp()
		}
	} else if m.host() && w.values[len(w.values)-1].value != now {
		w.add(now, s.hostStamp())
	}
	return w
}

// hostStamp is what host code publishes when it stores.
func (s *Sim) hostStamp() *stamp {
	k := s.host.know()
	for _, p := range s.processes {
		if p.host != s.host {
			k.merge(p.host.know())
		}
	}
	return &stamp{hb: k.hb.sheets, seen: k.seen.sheets, slot: s.host.slot}
}

// A flagPage has the words of a page of memory that were stored as flags.
type flagPage struct {
	left  int
	words [pageBytes / 4]*word
}

// flag returns the word at an offset, nil if it was never stored as a flag.
//
//go:norace
func (m *memory) flag(at int) *word {
	if p := m.shadow.pages[at/pageBytes].flags; p != nil {
		return p.words[at%pageBytes/4]
	}
	return nil
}

//go:norace
func (m *memory) keep(w *word) {
	page := &m.shadow.pages[w.at/pageBytes]
	if page.flags == nil {
		page.flags = &flagPage{}
	}
	page.flags.words[w.at%pageBytes/4] = w
	page.flags.left++
}

// forget drops the words among bytes that are written otherwise.
//
//go:norace
func (m *memory) forget(lo, hi int) {
	lo = max(lo-3, 0) // where a word begins that has the first byte
	for page := lo / pageBytes; page*pageBytes < hi; page++ {
		p := m.shadow.pages[page].flags
		if p == nil || p.left == 0 {
			continue
		}
		base := page * pageBytes
		for i := (max(lo, base) - base) / 4; i < pageBytes/4 && base+4*i < hi; i++ {
			if w := p.words[i]; w != nil && lo <= w.at && w.at < hi {
				p.words[i] = nil
				p.left--
			}
		}
	}
}

// oldest returns the index of the last value that the actor knows of.
//
//go:norace
func (w *word) oldest(a *actor) int {
	for i := len(w.values) - 1; i > 0; i-- {
		p := w.values[i].published
		if p == nil || p.slot == a.slot || p.seenEpoch <= a.seen.at(p.slot) {
			return i
		}
	}
	return 0
}

// word returns the word at an offset, nil if it was never stored as a flag. In host memory there is always one.
//
//go:norace
func (s *Sim) word(m *memory, at int) *word {
	if m.host() {
		return s.flagAt(m, at, m.get(at))
	}
	return m.flag(at)
}

// A loaded is what an actor finds in a word.
type loaded struct {
	value     uint32
	published *stamp // by the value's store, nil if the actor knows it
	newest    bool   // there is no newer value
	again     bool   // the actor has loaded this value in its present epoch, and none was stored since
}

// load returns a value for the actor, which joins what its store has published, or observes it.
//
//go:norace
func (s *Sim) load(a *actor, m *memory, at int, acquire bool) (v loaded) {
	w := s.word(m, at)
	if w == nil {
		m.stamps(at, at+4, func(s *stamp) { v.published = s })
		v.value, v.newest = m.get(at), true
		return v
	}
	last := len(w.values) - 1
	r, i := w.readingOf(a), last
	if !m.host() {
		i = w.next(a, r)
	}
	now := reading{a.slot, w.first + i, w.first + last, a.epoch, acquire}
	v = loaded{w.values[i].value, w.values[i].published, i == last, false}
	if r.index == now.index && r.epoch >= a.born && r.epoch != 0 {
		if r.acquired || !acquire {
			v.published = nil
		}
		v.again = r.epoch == now.epoch && r.last == now.last
		now.acquired = acquire || r.acquired
	}
	*r = now
	return v
}

// readingOf returns the actor's last load, whose epoch is 0 if there was none.
//
//go:norace
func (w *word) readingOf(a *actor) *reading {
	if w.recent != nil && w.recent.slot == a.slot {
		return w.recent
	}
	r := w.read[a.slot]
	if r == nil {
		if w.read == nil {
			w.read = map[int]*reading{}
		}
		r = &reading{slot: a.slot}
		w.read[a.slot] = r
	}
	w.recent = r
	return r
}

// next returns the index of the value that the actor loads now, after its last load r.
//
//go:norace
func (w *word) next(a *actor, r *reading) int {
	i := w.oldest(a)
	if r.epoch != 0 {
		i = min(max(i, r.index+1-w.first), len(w.values)-1)
	}
	return i
}

// fits returns what the oldest value that fits has published.
//
//go:norace
func (s *Sim) fits(a *actor, m *memory, at int, fit func(uint32) bool) (published *stamp, ok bool) {
	w := s.word(m, at)
	if w == nil {
		m.stamps(at, at+4, func(s *stamp) { published = s })
		return published, fit(m.get(at))
	}
	i := len(w.values) - 1
	if !m.host() {
		i = w.oldest(a)
	}
	for ; i < len(w.values); i++ {
		if fit(w.values[i].value) {
			return w.values[i].published, true
		}
	}
	return nil, false
}
