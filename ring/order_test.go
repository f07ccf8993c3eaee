package ring

import (
	"testing"

	"github.com/colligo-go/colligo/plan"
	"github.com/colligo-go/colligo/plan/plantest"
)

// op is commutative, and the order of reduction matters to it.
func op(a, b uint64) uint64 { return (a+b)*0xbf58476d1ce4e5b9 ^ a ^ b }

// fold returns element e of x(first) + (x(first+step) + (… + x(first+(n-1)step))).
func fold(in [][]uint64, e, first, step int) uint64 {
	n := len(in)
	at := func(k int) uint64 { return in[((first+k*step)%n+n)%n][e] }
	x := at(n - 1)
	for k := n - 2; k >= 0; k-- {
		x = op(at(k), x)
	}
	return x
}

// TestOrder computes reductions in the order that the comments state.
func TestOrder(t *testing.T) {
	const per, root = 3, 1
	for n := 2; n <= 6; n++ {
		compareOrder(t, plan.Shape{Coll: plan.AllReduce, Size: n, Count: per * n}, func(in [][]uint64, _, e int) uint64 {
			return fold(in, e, e/per, -1)
		})
		compareOrder(t, plan.Shape{Coll: plan.ReduceScatter, Size: n, Count: per}, func(in [][]uint64, r, e int) uint64 {
			return fold(in, r*per+e, r, -1)
		})
		compareOrder(t, plan.Shape{Coll: plan.Reduce, Size: n, Root: root, Count: per}, func(in [][]uint64, _, e int) uint64 {
			return fold(in, e, root, 1)
		})
	}
}

// compareOrder compares outputs with what want says of element e of rank r's.
func compareOrder(t *testing.T, s plan.Shape, want func(in [][]uint64, r, e int) uint64) {
	t.Helper()
	s.Elem = 4
	in, out, err := plantest.Outputs(prove(t, planners[s.Coll], s), 1, op)
	if err != nil {
		t.Fatal(err)
	}
	for r := range out {
		for e, got := range out[r] {
			if got != want(in, r, e) {
				t.Errorf("%v: element %d on rank %d is not reduced in the order stated", s, e, r)
			}
		}
	}
}
