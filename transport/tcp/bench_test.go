package tcp

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/colligo-go/colligo/transport"
)

// roles of children; each ends when the parent closes or kills.
var roles = map[string]func(transport.Mesh) error{
	"echo": func(m transport.Mesh) error {
		buf := make([]byte, 64<<10)
		for {
			h, p, err := receive(m, 0, 0, buf)
			if err != nil {
				return m.Close()
			}
			out := *h
			buf = append(buf[:0], p...)
			m.Link(0).Release(0)
			if err := sendAll(m, 0, out, buf); err != nil {
				return m.Close()
			}
		}
	},
	// sink takes frames on all lanes and answers one of step 1 with an empty one. Frames with an even root go to a
	// destination, others stay in the link's memory.
	"sink": func(m transport.Mesh) error {
		l := m.Link(0)
		dst := make([]byte, l.MaxFrame())
		idle := 0
		for {
			moved := false
			for lane := range *childLanes {
				h, err := l.Head(lane)
				if err != nil {
					return m.Close()
				}
				if h == nil {
					continue
				}
				to := dst[:h.Len]
				if h.Call.Root%2 != 0 {
					to = nil
				}
				_, ok, err := l.Body(lane, to)
				if err != nil {
					return m.Close()
				}
				if !ok {
					continue
				}
				moved = true
				answer := h.Step == 1
				l.Release(lane)
				if answer {
					if err := sendAll(m, 0, transport.Header{}, nil); err != nil {
						return m.Close()
					}
				}
			}
			if idle++; moved {
				idle = 0
				continue
			}
			m.Wait(idle, noLimit)
		}
	},
}

// forever is more than any measured time. The benchmarks report their best time, as other work on the machine only adds.
const forever = time.Hour

// BenchmarkRoundTrip sends a frame to another process and gets it back, 100 times in each measurement.
func BenchmarkRoundTrip(b *testing.B) {
	for _, size := range []int{8, 4 << 10, 64 << 10} {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			m, _ := withChild(b, "echo", nil)
			p, back := make([]byte, size), make([]byte, size)
			best := forever
			for b.Loop() {
				start := time.Now()
				for range 100 {
					roundTrip(b, m, p, back)
				}
				best = min(best, time.Since(start)/100)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(best.Nanoseconds()), "best-ns")
		})
	}
}

func roundTrip(b *testing.B, m transport.Mesh, p, back []byte) {
	if err := sendAll(m, 1, transport.Header{}, p); err != nil {
		b.Fatal(err)
	}
	if _, _, err := receive(m, 1, 0, back); err != nil {
		b.Fatal(err)
	}
	m.Link(1).Release(0)
}

// BenchmarkOneWay sends 64 MiB in frames to another process, which says when it has them.
func BenchmarkOneWay(b *testing.B) {
	for _, lanes := range []int{1, 2} {
		for _, frame := range []int{64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20, 4 << 20} {
			for root, to := range []string{"dst", "link"} {
				b.Run(fmt.Sprintf("lanes=%d/frame=%dKi/to=%s", lanes, frame>>10, to), func(b *testing.B) {
					m, _ := withChild(b, "sink", func(c *transport.Config) { c.Lanes, c.FrameBytes = lanes, frame })
					p := bytes.Repeat([]byte{1}, 64<<20) // of pages of its own, not the kernel's page of zeros
					best := forever
					for b.Loop() {
						start := time.Now()
						oneWay(b, m, p, frame, lanes, int32(root))
						best = min(best, time.Since(start))
					}
					b.ReportMetric(0, "ns/op")
					b.ReportMetric(float64(len(p))/best.Seconds()/1e9, "best-GB/s")
				})
			}
		}
	}
}

// oneWay deals frames to the lanes, and waits for the answers to the last of each.
func oneWay(b *testing.B, m transport.Mesh, p []byte, frame, lanes int, root int32) {
	l := m.Link(1)
	next := make([]int, lanes)
	open := lanes
	for i := range next {
		next[i] = i * frame
	}
	for idle := 1; open > 0; idle++ {
		moved := false
		for lane := range next {
			at := next[lane]
			if at >= len(p) {
				continue
			}
			h := transport.Header{Lane: uint16(lane), Len: uint32(frame), Call: transport.Call{Root: root}}
			if at+lanes*frame >= len(p) {
				h.Step = 1
			}
			ok, err := l.Send(&h, p[at:at+frame])
			if err != nil {
				b.Fatal(err)
			}
			if ok {
				moved = true
				if next[lane] += lanes * frame; next[lane] >= len(p) {
					open--
				}
			}
		}
		if moved {
			idle = 0
		} else {
			m.Wait(idle, noLimit)
		}
	}
	for range lanes {
		if _, _, err := receive(m, 1, 0, nil); err != nil {
			b.Fatal(err)
		}
		l.Release(0)
	}
}
