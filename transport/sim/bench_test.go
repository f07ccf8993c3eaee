package sim_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/colligo-go/colligo/transport"
	"github.com/colligo-go/colligo/transport/sim"
)

// two opens a pair of ranks on a network without delays.
func two(frame int) (x, y transport.Mesh) {
	n := sim.New(sim.Config{Size: 2})
	opened := make(chan transport.Mesh)
	for rank := range 2 {
		go func() {
			m, err := n.Open(context.Background(), &transport.Config{Rank: rank, Size: 2, Lanes: 1, FrameBytes: frame})
			if err != nil {
				panic(err)
			}
			opened <- m
		}()
	}
	x, y = <-opened, <-opened
	if x.Link(0) == nil {
		return x, y
	}
	return y, x
}

func push(b *testing.B, m transport.Mesh, l transport.Link, h *transport.Header, p []byte) {
	for idle := 1; ; idle++ {
		ok, err := l.Send(h, p)
		if err != nil {
			b.Error(err)
		}
		if ok || err != nil {
			return
		}
		m.Wait(idle, time.Time{})
	}
}

func pull(b *testing.B, m transport.Mesh, l transport.Link, dst []byte) {
	for idle := 1; ; idle++ {
		h, err := l.Head(0)
		if h != nil {
			break
		}
		if err != nil {
			b.Error(err)
			return
		}
		m.Wait(idle, time.Time{})
	}
	if _, _, err := l.Body(0, dst); err != nil {
		b.Error(err)
	}
	l.Release(0)
}

// BenchmarkPingPong measures one frame to a peer and back; the latency of a frame is half of it.
func BenchmarkPingPong(b *testing.B) {
	for _, bytes := range []int{8, 4096} {
		b.Run(fmt.Sprintf("bytes=%d", bytes), func(b *testing.B) {
			x, y := two(0)
			var wg sync.WaitGroup
			wg.Go(func() { reply(b, y, bytes) })
			p, h := make([]byte, bytes), &transport.Header{Len: uint32(bytes)}
			b.ReportAllocs()
			for range b.N {
				push(b, x, x.Link(1), h, p)
				pull(b, x, x.Link(1), p)
			}
			wg.Wait()
		})
	}
}

func reply(b *testing.B, m transport.Mesh, bytes int) {
	p, h := make([]byte, bytes), &transport.Header{Len: uint32(bytes)}
	for range b.N {
		pull(b, m, m.Link(0), p)
		push(b, m, m.Link(0), h, p)
	}
}

// BenchmarkStream measures frames one way, copied in and out.
func BenchmarkStream(b *testing.B) {
	for _, bytes := range []int{16 << 10, 64 << 10, 256 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("bytes=%d", bytes), func(b *testing.B) {
			x, y := two(bytes)
			var wg sync.WaitGroup
			wg.Go(func() { drain(b, y, make([]byte, bytes)) })
			l, h, p := x.Link(1), &transport.Header{Len: uint32(bytes)}, make([]byte, bytes)
			b.SetBytes(int64(bytes))
			b.ReportAllocs()
			for range b.N {
				push(b, x, l, h, p)
			}
			wg.Wait()
		})
	}
}

func drain(b *testing.B, m transport.Mesh, p []byte) {
	for range b.N {
		pull(b, m, m.Link(0), p)
	}
}

// BenchmarkInPlace measures what a frame one way costs when nothing is copied.
func BenchmarkInPlace(b *testing.B) {
	const bytes = 64 << 10
	x, y := two(bytes)
	var wg sync.WaitGroup
	wg.Go(func() { drain(b, y, nil) })
	l, h := x.Link(1), &transport.Header{Len: bytes}
	b.ReportAllocs()
	for i := range b.N {
		p := l.Slot(0, bytes)
		for idle := 1; p == nil; idle++ {
			x.Wait(idle, time.Time{})
			p = l.Slot(0, bytes)
		}
		p[i%bytes]++
		push(b, x, l, h, p)
	}
	wg.Wait()
}
