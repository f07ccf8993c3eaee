package pg

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/plan"
)

// TestDuePairs lets receives come, end and expire in random order, and holds each look against one at all of them.
func TestDuePairs(t *testing.T) {
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			g := &Group{}
			for range 300 {
				switch random.IntN(3) {
				case 0:
					g.pairs = append(g.pairs, receiveFor(t, random))
				case 1:
					if n := len(g.pairs); n > 0 {
						i := random.IntN(n)
						g.pairs = append(g.pairs[:i], g.pairs[i+1:]...)
					}
				default:
					time.Sleep(time.Duration(random.IntN(3)) * time.Second)
				}
				due := g.duePairs()
				var first *operation
				for _, op := range g.pairs {
					if first == nil || op.deadline.Before(first.deadline) {
						first = op
					}
				}
				if first != nil {
					require.False(t, due.IsZero() || due.After(first.deadline), "seed %d: asleep beyond a deadline", seed)
				}
				late, cause := g.expiredPair(time.Now())
				require.NoError(t, cause)
				require.Equal(t, first != nil && !time.Now().Before(first.deadline), late != nil, "seed %d", seed)
				if late != nil { // the group would fail; here all who are late go
					g.pairs = nil
				}
			}
		})
	}
}

// receiveFor makes a pending receive with the group's limit or a context's.
func receiveFor(t *testing.T, random *rand.Rand) *operation {
	op := &operation{lease: lease{limit: time.Duration(1+random.IntN(20)) * time.Second}}
	op.coll = plan.Recv
	if random.IntN(2) == 0 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+random.IntN(20))*time.Second)
		t.Cleanup(cancel)
		op.ctx = ctx
	}
	return op
}

// BenchmarkPendingDeadlines is what deadlines cost an idle round while receives are pending.
func BenchmarkPendingDeadlines(b *testing.B) {
	for _, n := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprintf("pending=%d", n), func(b *testing.B) {
			g := &Group{size: 1}
			for range n {
				op := &operation{lease: lease{limit: time.Hour}}
				op.coll = plan.Recv
				g.pairs = append(g.pairs, op)
			}
			for b.Loop() {
				g.nearest()
				g.expired()
			}
		})
	}
}
