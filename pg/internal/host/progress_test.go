package host

import (
	"testing"
	"time"

	"github.com/colligo-go/colligo/pg/internal/op"
	"github.com/colligo-go/colligo/plan"
)

// BenchmarkIdlePoll measures one look of the progress engine at 10,000 pending operations, on the clock and on contexts.
func BenchmarkIdlePoll(b *testing.B) {
	h := New(Config{Name: "0", Size: 2})
	for range 10_000 {
		h.active = append(h.active, &op.Op{Coll: plan.Barrier, Limit: time.Hour})
	}
	b.ReportAllocs()
	for b.Loop() {
		if h.expired() || h.nearest().IsZero() {
			b.Fatal("something is late")
		}
	}
}
