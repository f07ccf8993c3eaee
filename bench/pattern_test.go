package main

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
)

func reducing(d colligo.DType, op colligo.ReduceOp) testCase {
	return testCase{collective: collective{name: "all_reduce", reduces: true}, dtype: d, op: op}
}

// TestPatternIsExact adds up the numbers of all ranks one by one. Each partial result must be exact in the element type, and
// the last must equal reduced's.
func TestPatternIsExact(t *testing.T) {
	for _, d := range colligo.DTypes() {
		for _, op := range allOps() {
			kind, _, err := op.Kind().Check(d)
			if err != nil {
				continue
			}
			for _, ranks := range []int{1, 2, 7, 64, 1000} {
				p := newPattern(reducing(d, op), ranks)
				for i := range 50 {
					checkElement(t, p, d, kind, i, fmt.Sprintf("%v %v, %d ranks, element %d", d, op, ranks, i))
				}
			}
		}
	}
}

func checkElement(t *testing.T, p pattern, d colligo.DType, kind colligo.OpKind, i int, what string) {
	factor, top := 1.0, float64(exact(d))
	if kind == colligo.KindPremulSum {
		factor = premulFactor
	}
	got := p.value(0, i) * factor
	for rank := 1; rank < p.ranks; rank++ {
		v := p.value(rank, i) * factor
		got = dumb(kind, got, v)
		if v < 0 || v != float64(uint64(v)) || got > top {
			t.Fatalf("%s: rank %d has %v, which makes %v; the type counts to %v", what, rank, v, got, top)
		}
	}
	if kind == colligo.KindAvg {
		got = average(d, got, p.ranks)
	}
	if got != p.reduced(i) {
		t.Fatalf("%s: %v, but one by one %v", what, p.reduced(i), got)
	}
}

// average returns the average of an element type: integers are divided, and floats multiplied by a weight that is one of the type's
// own numbers. The root package alone converts it.
func average(d colligo.DType, sum float64, ranks int) float64 {
	one := 1 / float64(ranks)
	switch d.Real() {
	case colligo.Float64:
		return sum * one
	case colligo.Float32:
		return sum * float64(float32(one))
	case colligo.Float16:
		return sum * float64(colligo.Float16ToFloat32(colligo.Float16FromFloat32(float32(one))))
	case colligo.BFloat16:
		return sum * float64(colligo.BFloat16ToFloat32(colligo.BFloat16FromFloat32(float32(one))))
	case colligo.Float8E4M3FN:
		return sum * float64(colligo.Float8E4M3FNToFloat32(colligo.Float8E4M3FNFromFloat32(float32(one))))
	case colligo.Float8E5M2:
		return sum * float64(colligo.Float8E5M2ToFloat32(colligo.Float8E5M2FromFloat32(float32(one))))
	}
	return sum / float64(ranks)
}

func dumb(kind colligo.OpKind, a, b float64) float64 {
	switch kind {
	case colligo.KindProd:
		return a * b
	case colligo.KindMin:
		return min(a, b)
	case colligo.KindMax:
		return max(a, b)
	case colligo.KindBAnd:
		return float64(uint64(a) & uint64(b))
	case colligo.KindBOr:
		return float64(uint64(a) | uint64(b))
	case colligo.KindBXor:
		return float64(uint64(a) ^ uint64(b))
	}
	return a + b
}

// TestPatternTellsPlaces counts how often an element equals the one of another place or rank.
func TestPatternTellsPlaces(t *testing.T) {
	const n = 4000
	for d, limit := range map[colligo.DType]int{colligo.Float32: 5, colligo.Uint8: 40, colligo.Float8E5M2: 600} {
		p := newPattern(testCase{dtype: d}, 4)
		places, ranks := 0, 0
		for i := range n {
			if p.value(1, i) == p.value(1, i+1) {
				places++
			}
			if p.value(1, i) == p.value(2, i) {
				ranks++
			}
		}
		require.Less(t, places, limit, d)
		require.Less(t, ranks, limit, d)
	}
}

// TestPatternTellsFaults leaves one rank out of every reduction, and takes the result of the next place: both show.
func TestPatternTellsFaults(t *testing.T) {
	const n = 4000
	for _, d := range colligo.DTypes() {
		for _, op := range allOps() {
			kind, _, err := op.Kind().Check(d)
			if err != nil {
				continue
			}
			for _, ranks := range []int{2, 8, 40} {
				p := newPattern(reducing(d, op), ranks)
				left, moved := 0, 0
				for i := range n {
					without := p.value(0, i)
					for rank := 2; rank < ranks; rank++ {
						without = dumb(kind, without, p.value(rank, i))
					}
					if without != dumb(kind, without, p.value(1, i)) {
						left++
					}
					if p.reduced(i) != p.reduced(i+1) {
						moved++
					}
				}
				require.NotZero(t, left, "%v %v, %d ranks: rank 1 left out", d, op, ranks)
				require.NotZero(t, moved, "%v %v, %d ranks: moved by one element", d, op, ranks)
			}
		}
	}
}

// TestDiffering plants faults in tensors of every element type.
func TestDiffering(t *testing.T) {
	const n = 2500 // more than two blocks
	for _, d := range colligo.DTypes() {
		p := newPattern(testCase{dtype: d}, 2)
		b := &binding{testCase: testCase{dtype: d}, pattern: p, count: n, memory: newHostMemory(n * d.Size())}
		x := b.input(n)
		require.NotZero(t, differing(x, b.from(1, 0)), "%v: zeros", d)
		fill(x, b.from(1, 0))
		require.Zero(t, differing(x, b.from(1, 0)), d)
		require.NotZero(t, differing(x, b.from(0, 0)), "%v: another rank", d)
		require.NotZero(t, differing(x, b.from(1, 1)), "%v: moved by one element", d)
		require.Zero(t, differing(x.Slice(100, n), b.from(1, 100)), "%v: from element 100", d)
		at := x.Slice(2047, 2049)
		poison(at)
		require.EqualValues(t, 2, differing(x, b.from(1, 0)), "%v: two poisoned elements", d)
	}
}
