package cudasim

import "sync"

// Taking memory from the operating system page by page takes longer than most of what tests do with it. So the pages of a device
// go from one Sim to the next in this process, zeroed as far as they were written.

// devicePages is memory of a device. Only pages that are dirty may hold something other than zeros.
type devicePages struct {
	bytes []byte
	dirty []bool // for each pageBytes
	free  bool   // of the Sim that has it
}

// soil notes that bytes lo to hi are written.
//
//go:norace
func (d *devicePages) soil(lo, hi int) {
	for i := lo / pageBytes; i*pageBytes < hi; i++ {
		d.dirty[i] = true
	}
}

// clear makes bytes lo to hi zero.
//
//go:norace
func (d *devicePages) clear(lo, hi int) {
	for i := lo / pageBytes; i*pageBytes < hi; i++ {
		if d.dirty[i] {
			clear(d.bytes[max(lo, i*pageBytes):min(hi, (i+1)*pageBytes)])
		}
	}
}

// cleared notes that bytes lo to hi are zero.
//
//go:norace
func (d *devicePages) cleared(lo, hi int) {
	for i := (lo + pageBytes - 1) / pageBytes; (i+1)*pageBytes <= hi; i++ {
		d.dirty[i] = false
	}
}

// empty makes all of the memory zero.
func (d *devicePages) empty() {
	d.clear(0, len(d.bytes))
	d.cleared(0, len(d.bytes))
}

// pages returns zeroed memory of at least some bytes: what this Sim or one before it has given back, or new.
func (s *Sim) pages(bytes int) *devicePages {
	n := roundUp(bytes, pageBytes)
	for _, d := range s.taken {
		if d.free && len(d.bytes) == n {
			d.free = false
			return d
		}
	}
	d := spare.take(n)
	if d == nil {
		d = &devicePages{bytes: takePages(n), dirty: make([]bool, n/pageBytes)}
	}
	s.taken = append(s.taken, d)
	return d
}

// sparePages is what closed Sims have given back, up to a limit, the oldest first.
type sparePages struct {
	mu    sync.Mutex
	all   []*devicePages
	bytes int
}

var spare sparePages

const mostSpare = 512 << 20 // bytes

func (p *sparePages) take(bytes int) *devicePages {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(p.all) - 1; i >= 0; i-- {
		if d := p.all[i]; len(d.bytes) == bytes {
			p.all = append(p.all[:i], p.all[i+1:]...)
			p.bytes -= bytes
			return d
		}
	}
	return nil
}

// give takes memory back, and returns the oldest to the operating system where there is too much.
func (p *sparePages) give(d *devicePages) {
	d.empty()
	d.free = false
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, d)
	for p.bytes += len(d.bytes); p.bytes > mostSpare; p.all = p.all[1:] {
		p.bytes -= len(p.all[0].bytes)
		givePages(p.all[0].bytes)
		p.all[0] = nil
	}
}
