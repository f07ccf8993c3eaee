package tcp

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/colligo-go/colligo/transport"
)

// BenchmarkToken sends a token around ranks that are all in this process, 20 times in each measurement.
func BenchmarkToken(b *testing.B) {
	for _, size := range []int{2, 4, 8} {
		b.Run(fmt.Sprintf("ranks=%d", size), func(b *testing.B) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			meshes := make([]transport.Mesh, size)
			var wg sync.WaitGroup
			for rank, c := range group(size) {
				wg.Go(func() {
					var err error
					if meshes[rank], err = Open(ctx, c); err != nil {
						b.Error(err)
					}
				})
			}
			wg.Wait()
			for _, m := range meshes[1:] {
				wg.Go(func() { pass(m, size) })
			}
			best := forever
			token := make([]byte, 8)
			for b.Loop() {
				start := time.Now()
				for range 20 {
					if err := sendAll(meshes[0], 1, transport.Header{}, token); err != nil {
						b.Fatal(err)
					}
					if _, _, err := receive(meshes[0], size-1, 0, token); err != nil {
						b.Fatal(err)
					}
					meshes[0].Link(size - 1).Release(0)
				}
				best = min(best, time.Since(start)/time.Duration(20*size))
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(best.Nanoseconds()), "best-ns/hop")
			meshes[0].Close()
			wg.Wait()
		})
	}
}

// pass hands the token on until the mesh of the rank before is closed, and closes its own.
func pass(m transport.Mesh, size int) {
	defer m.Close()
	rank := m.(*mesh).c.Rank
	buf := make([]byte, 8)
	for {
		h, p, err := receive(m, rank-1, 0, buf)
		if err != nil {
			return
		}
		out := *h
		m.Link(rank - 1).Release(0)
		if sendAll(m, (rank+1)%size, out, p) != nil {
			return
		}
	}
}
