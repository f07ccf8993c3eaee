package shm

import (
	"fmt"
	"sync"
	"testing"

	"github.com/colligo-go/colligo/transport"
)

// BenchmarkPingPong is the round trip of a message between two processes, which both copy it out and in.
func BenchmarkPingPong(b *testing.B) {
	for _, bytes := range []int{8, 64, 1 << 10, 16 << 10, 64 << 10} {
		b.Run(fmt.Sprintf("bytes=%d", bytes), func(b *testing.B) {
			dir := b.TempDir()
			launch(b, dir, "echo", 1, 2, b.N, bytes)
			m := openProcess(b, dir, 2, nil)
			p := make([]byte, bytes)
			out := func(_ *transport.Header, q []byte) error { copy(p, q); return nil }
			b.ResetTimer()
			for i := range b.N {
				if err := send(m, 1, 0, uint64(i), p); err != nil {
					b.Fatal(err)
				}
				if err := receive(m, 1, 0, out); err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			m.Close()
		})
	}
}

// BenchmarkStream copies messages into slots, and out of them in another process.
func BenchmarkStream(b *testing.B) {
	for _, bytes := range []int{4 << 10, 64 << 10, 256 << 10, 1 << 20} {
		for _, shape := range []struct{ frame, slots int }{{64 << 10, 8}, {defaultFrame, 4}, {defaultFrame, defaultSlots}} {
			b.Run(fmt.Sprintf("bytes=%d/frame=%d/slots=%d", bytes, shape.frame, shape.slots), func(b *testing.B) {
				stream(b, bytes, shape.frame, shape.slots)
			})
		}
	}
}

func stream(b *testing.B, bytes, frame, slots int) {
	dir := b.TempDir()
	launch(b, dir, "sink", 1, 2, b.N, bytes, fmt.Sprintf("-shm.frame=%d", frame), fmt.Sprintf("-shm.slots=%d", slots))
	m := openProcess(b, dir, 2, func(c *transport.Config) { c.FrameBytes, c.Slots = frame, slots })
	src := make([]byte, bytes)
	b.SetBytes(int64(bytes))
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		for rest := src; len(rest) > 0; {
			n := min(len(rest), m.Link(1).MaxFrame())
			if err := send(m, 1, 0, uint64(i), rest[:n]); err != nil {
				b.Fatal(err)
			}
			rest = rest[n:]
		}
	}
	if err := receive(m, 1, 0, func(*transport.Header, []byte) error { return nil }); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	m.Close()
}

// BenchmarkTokens has every rank exchange 8 bytes with every other, over and over.
func BenchmarkTokens(b *testing.B) {
	for _, size := range []int{2, 4, 8} {
		b.Run(fmt.Sprintf("ranks=%d", size), func(b *testing.B) {
			dir := b.TempDir()
			for rank := 1; rank < size; rank++ {
				launch(b, dir, "tokens", rank, size, b.N, 8)
			}
			*childCount = b.N
			m := openProcess(b, dir, size, nil)
			b.ResetTimer()
			if err := tokens(m, processConfig(dir, 0, size)); err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			m.Close()
		})
	}
}

// BenchmarkFrame is what a small frame costs a core: one goroutine has both ends of a link, so nothing is waited for. Built with the tag
// valgrind and run in cachegrind, it tells the instructions of each function.
func BenchmarkFrame(b *testing.B) {
	for _, bytes := range []int{8, 64} {
		b.Run(fmt.Sprintf("bytes=%d", bytes), func(b *testing.B) {
			meshes := make([]transport.Mesh, 2)
			var all sync.WaitGroup
			dir := b.TempDir()
			for rank := range meshes {
				all.Go(func() {
					var err error
					if meshes[rank], err = Open(b.Context(), processConfig(dir, rank, 2)); err != nil {
						b.Error(err)
					}
				})
			}
			all.Wait()
			if b.Failed() {
				return
			}
			p, q := make([]byte, bytes), make([]byte, bytes)
			out := func(_ *transport.Header, r []byte) error { copy(q, r); return nil }
			for i := uint64(0); b.Loop(); i++ {
				if err := send(meshes[0], 1, 0, i, p); err != nil {
					b.Fatal(err)
				}
				if err := receive(meshes[1], 0, 0, out); err != nil {
					b.Fatal(err)
				}
			}
			for _, m := range meshes {
				m.Close()
			}
		})
	}
}
