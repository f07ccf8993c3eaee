package main

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/colligo-go/colligo/cuda/peer"
	"github.com/colligo-go/colligo/pg/tuning"
	"github.com/colligo-go/colligo/plan"
)

const (
	tunedTile = 32 << 10
	// These bound what is tried: beyond them LL and LL128 lose, and the backend's symmetric heap makes it take another algorithm for the others.
	llMost           = 512 << 10
	twoShotMost      = 1 << 20
	ll128Most        = 32 << 20
	ll128TwoShotMost = 1 << 20
	// worthIt is how much faster another algorithm has to be for a new line of the table.
	worthIt = 1.03
)

// candidatesOnCPU makes variant i of the i-th algorithm of each collective that has several.
func (o *options) candidatesOnCPU() ([]*variant, error) {
	var all []*variant
	for i := 0; ; i++ {
		v := &variant{label: fmt.Sprintf("candidate %d:", i), algo: map[string]string{}, tuned: map[plan.Coll]int{}}
		for _, c := range o.collectives {
			names := tuning.Algorithms(c.coll)
			if o.transport == "tcp" || o.transport == inProcess { // no peer reads this rank's memory there
				names = slices.DeleteFunc(names, tuning.ZeroCopy)
			}
			if len(names) < 2 || i >= len(names) {
				continue
			}
			v.algo[c.coll.String()], v.tuned[c.coll] = names[i], 0
			v.label += " " + c.name + " " + names[i]
		}
		if len(v.tuned) == 0 {
			break
		}
		all = append(all, v)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("-tune: none of these collectives has several algorithms on the CPU")
	}
	return all, nil
}

// mostOf bounds what is tried of an algorithm; 0 bounds nothing.
func mostOf(w peer.Algorithm) int {
	switch w {
	case peer.LL:
		return llMost
	case peer.LLTwoShot:
		return twoShotMost
	case peer.LL128:
		return ll128Most
	case peer.LL128TwoShot:
		return ll128TwoShotMost
	}
	return 0
}

// usualGrids are the grids that are tried on GPUs, with -register for registered memory. They are the table's grids and
// their neighbours.
func usualGrids() []peer.Rule {
	all := []peer.Rule{
		{Algorithm: peer.LL, Blocks: 8, Threads: 256},
		{Algorithm: peer.LL, Blocks: 16, Threads: 256},
		{Algorithm: peer.LL, Blocks: 16, Threads: 512},
		{Algorithm: peer.LL, Blocks: 32, Threads: 512},
		{Algorithm: peer.LL, Blocks: 64, Threads: 512},
		{Algorithm: peer.LLTwoShot, Blocks: 32, Threads: 512},
		{Algorithm: peer.LLTwoShot, Blocks: 64, Threads: 512},
		{Algorithm: peer.LL128, Blocks: 128, Threads: 512},
		{Algorithm: peer.LL128TwoShot, Blocks: 64, Threads: 512},
		{Algorithm: peer.Sentinel, Blocks: 128, Threads: 256},
		{Algorithm: peer.Sentinel, Blocks: 64, Threads: 512},
		{Algorithm: peer.Tiles, Blocks: 128, Threads: 512},
		{Algorithm: peer.Tiles, Blocks: 128, Threads: 512, Tile: 16 << 10},
		{Algorithm: peer.Direct, Registered: true, Blocks: 128, Threads: 256},
		{Algorithm: peer.Rotation, Blocks: 256, Threads: 256},
		{Algorithm: peer.Rotation, Blocks: 128, Threads: 512, Tile: 16 << 10},
		{Algorithm: peer.Chain, Blocks: 256, Threads: 256, Tile: 8 << 10},
		{Algorithm: peer.Chain, Blocks: 128, Threads: 512, Tile: 8 << 10},
		{Algorithm: peer.Chain, Blocks: 128, Threads: 512, Tile: 32 << 10},
		{Algorithm: peer.CopyRing, Blocks: 256, Threads: 512},
	}
	for _, c := range peer.DefaultRules() {
		g := peer.Rule{Algorithm: c.Algorithm, Registered: c.Registered, Blocks: c.Blocks, Threads: c.Threads, Tile: c.Tile}
		if !slices.Contains(all, g) {
			all = append(all, g)
		}
	}
	for i := range all {
		all[i].MaxBytes = mostOf(all[i].Algorithm)
	}
	return all
}

// candidatesOnGPU makes a variant of each algorithm and grid.
func (o *options) candidatesOnGPU() ([]*variant, error) {
	table := peer.DefaultRules()
	var all []*variant
	tried := []peer.Rule(o.try)
	if len(tried) == 0 {
		tried = usualGrids()
	}
	for _, g := range tried {
		if g.Registered && !o.register {
			continue
		}
		v := &variant{tuned: map[plan.Coll]int{}}
		most := g.MaxBytes
		g.MaxBytes = 0
		for _, c := range o.collectives {
			if g.Algorithm.Serves(c.coll) {
				g.Coll = c.coll
				v.rules = append(v.rules, g)
				v.tuned[c.coll] = most
			}
		}
		if len(v.tuned) > 0 {
			v.label = gridLabel(g)
			// All other operations of the run, such as the first all_reduce, go by the default table.
			v.rules = append(v.rules, table...)
			all = append(all, v)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("-tune: none of these collectives has a table on GPUs")
	}
	return all, nil
}

// timings collects what the variants' sizes have taken.
type timings struct {
	colls []plan.Coll // in the order of their coming
	times map[plan.Coll]map[int]map[*variant]float64
	// spread has the fastest and the slowest that times have been, where it is known.
	spread map[spreadKey][2]float64
	best   *timings // of the rounds before
}

type spreadKey struct {
	coll    plan.Coll
	bytes   int
	variant *variant
}

// widen adds up the times of the fastest and the slowest batch.
func (t *timings) widen(v *variant, c plan.Coll, bytes int, least, most float64) {
	if t.spread == nil {
		t.spread = map[spreadKey][2]float64{}
	}
	k := spreadKey{c, bytes, v}
	t.spread[k] = [2]float64{t.spread[k][0] + least, t.spread[k][1] + most}
}

// alike reports whether two variants' times lie within each other's spread, so that neither is known to be the faster.
func (t *timings) alike(c plan.Coll, bytes int, v, w *variant) bool {
	a, known := t.spread[spreadKey{c, bytes, v}]
	b, both := t.spread[spreadKey{c, bytes, w}]
	return v != w && known && both && a[0] <= b[1] && b[0] <= a[1]
}

// endRound keeps the least time of each variant over all rounds. The slowest is then the slowest round's time.
func (t *timings) endRound() {
	for k := range t.spread {
		if t.best != nil {
			t.merge(k)
		}
	}
	*t = timings{best: &timings{colls: t.colls, times: t.times, spread: t.spread, best: t.best}}
}

// add adds up the times of element types and reductions.
func (t *timings) add(v *variant, c plan.Coll, bytes int, us float64) {
	if t.times == nil {
		t.times = map[plan.Coll]map[int]map[*variant]float64{}
	}
	if t.times[c] == nil {
		t.colls = append(t.colls, c)
		t.times[c] = map[int]map[*variant]float64{}
	}
	if t.times[c][bytes] == nil {
		t.times[c][bytes] = map[*variant]float64{}
	}
	t.times[c][bytes][v] += us
}

// merge takes the rounds before into what this round has shown of a variant.
func (t *timings) merge(k spreadKey) {
	now, before := t.times[k.coll][k.bytes], t.best.times[k.coll][k.bytes]
	high := max(now[k.variant], before[k.variant])
	if t.best.best != nil {
		high = max(now[k.variant], t.best.spread[k][1])
	}
	t.spread[k] = [2]float64{min(t.spread[k][0], t.best.spread[k][0]), high}
	now[k.variant] = min(now[k.variant], before[k.variant])
}

// winner is the best variant for some sizes, up to and including most; 0 has no limit.
type winner struct {
	variant *variant
	most    int
}

// winners returns the best variants of a collective, from small sizes to large ones.
func (t *timings) winners(c plan.Coll) []winner {
	times := t.times[c]
	var sizes []int
	for n := range times {
		sizes = append(sizes, n)
	}
	slices.Sort(sizes)
	var all []winner
	for i, n := range sizes {
		best := fastest(times[n])
		if len(all) > 0 {
			last := &all[len(all)-1]
			us, ok := times[n][last.variant]
			if ok && (us <= worthIt*times[n][best] || t.alike(c, n, last.variant, best)) {
				continue
			}
			last.most = between(sizes[i-1], n)
		}
		all = append(all, winner{variant: best})
	}
	return all
}

// fastest breaks ties by the label, so that a table does not depend on the order of a map.
func fastest(times map[*variant]float64) *variant {
	var best *variant
	for v, us := range times {
		if best == nil || us < times[best] || us == times[best] && v.label < best.label {
			best = v
		}
	}
	return best
}

// between returns the bound between two sizes measured: the smaller one times a power of two, up to the middle on the
// logarithmic scale.
func between(below, above int) int {
	middle := int(math.Sqrt(float64(below) * float64(above)))
	n := max(below, 1)
	for 2*n <= middle {
		n *= 2
	}
	return n
}

// listing tells, size by size, what the variants have taken, the fastest first.
func (t *timings) listing(c plan.Coll) string {
	var b strings.Builder
	for _, n := range slices.Sorted(maps.Keys(t.times[c])) {
		times := t.times[c][n]
		order := slices.SortedFunc(maps.Keys(times), func(x, y *variant) int {
			return cmp.Or(cmp.Compare(times[x], times[y]), strings.Compare(x.label, y.label))
		})
		fmt.Fprintf(&b, "// %v %s, us:", c, formatSize(n))
		for i, v := range order {
			if i > 0 {
				b.WriteString(";")
			}
			fmt.Fprintf(&b, " %.4g %s", times[v], v.label)
			if t.alike(c, n, v, order[0]) {
				b.WriteString(" (within the spread)")
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}
