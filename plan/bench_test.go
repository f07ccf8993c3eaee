package plan_test

import (
	"fmt"
	"testing"

	"github.com/colligo-go/colligo/plan"
	"github.com/colligo-go/colligo/plan/plantest"
	"github.com/colligo-go/colligo/ring"
)

func BenchmarkCheck(b *testing.B) {
	for _, size := range []int{8, 64, 256, 1024} {
		plans, err := plantest.Plans(ring.AllReduce, plan.Shape{Coll: plan.AllReduce, Size: size, Count: 1 << 20, Elem: 4, Chunk: 1 << 20})
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) { benchmarkCheck(b, plans) })
	}
}

func benchmarkCheck(b *testing.B, plans []*plan.Plan) {
	for b.Loop() {
		if err := plan.Check(plans); err != nil {
			b.Fatal(err)
		}
	}
}
