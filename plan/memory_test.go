package plan

import (
	"math/rand/v2"
	"testing"
)

// TestMemory compares the map of ranges with its dumb twin, an array of elements.
func TestMemory(t *testing.T) {
	const n = 20
	rng := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		m, twin := newMemory(n), make([]value, n)
		for range 50 {
			writeBoth(rng, &m, twin)
			off := rng.IntN(n + 1)
			compareMemory(t, &m, twin[off:], off, rng.IntN(n-off+1))
		}
	}
}

// writeBoth writes the same pieces to the map and to the array.
func writeBoth(rng *rand.Rand, m *memory, twin []value) {
	trees := []*tree{nil, leaf(0), leaf(1), leaf(2)}
	off := rng.IntN(len(twin) + 1)
	var pieces []piece
	for at := off; at < len(twin) && rng.IntN(4) > 0; {
		p := piece{rng.IntN(len(twin) - at + 1), value{trees[rng.IntN(4)], rng.IntN(3) + at}}
		for i := range p.len {
			twin[at+i] = p.val.skip(i)
		}
		pieces = append(pieces, p)
		at += p.len
	}
	m.write(off, pieces)
}

func compareMemory(t *testing.T, m *memory, twin []value, off, n int) {
	t.Helper()
	i := 0
	for _, p := range m.read(nil, off, n) {
		for k := range p.len {
			got, want := p.val.skip(k), twin[i]
			if (got.tree == nil) != (want.tree == nil) || got.tree != nil && got.tree.form != want.tree.form || got.tree != nil && got.first != want.first {
				t.Fatalf("element %d of %v is %v, want %v", off+i, *m, got, want)
			}
			i++
		}
	}
	if i != n {
		t.Fatalf("read %d elements of %d", i, n)
	}
}
