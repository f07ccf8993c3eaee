package pg

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
)

// manyWorks is the works that are pending at once in benchmarks and in a test.
const manyWorks = 10_000

// TestManyPendingWorks has thousands of operations in flight, which end in order.
func TestManyPendingWorks(t *testing.T) {
	groups, err := InProcess(t.Context(), 2, Config{})
	require.NoError(t, err)
	manyPending(t, groups)
	for _, g := range groups {
		require.Zero(t, g.Pending())
		require.Equal(t, uint64(manyWorks), g.Metrics().Ops["ALLREDUCE"].Done)
		require.NoError(t, g.Close())
	}
}

// manyPending starts many operations on one rank, then on the other, and returns how long the first took to start them.
func manyPending(tb testing.TB, groups []*Group) time.Duration {
	works := make([]*Work, 0, 2*manyWorks)
	x := []colligo.Tensor{colligo.Of(make([]float32, 1)), colligo.Of(make([]float32, 1))}
	start := time.Now()
	var took time.Duration
	for i, g := range groups {
		for range manyWorks {
			works = append(works, g.AllReduceAsync(context.Background(), x[i], colligo.Sum))
		}
		if i == 0 {
			took = time.Since(start)
			require.Equal(tb, manyWorks, g.Pending())
		}
	}
	for _, w := range works {
		require.NoError(tb, w.Wait(context.Background()))
	}
	return took
}

// BenchmarkManyPending measures what it costs to start an operation while up to 10,000 are pending, and to see all end.
func BenchmarkManyPending(b *testing.B) {
	groups, err := InProcess(context.Background(), 2, Config{})
	require.NoError(b, err)
	b.ReportAllocs()
	var took time.Duration
	n := 0
	for b.Loop() {
		took += manyPending(b, groups)
		n += manyWorks
	}
	b.ReportMetric(float64(took.Nanoseconds())/float64(n), "ns/start")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(2*n), "ns/work")
	for _, g := range groups {
		require.NoError(b, g.Close())
	}
}
