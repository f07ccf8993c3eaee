package transporttest

import (
	"testing"

	"github.com/colligo-go/colligo/transport"
)

// load exchanges frames of random sizes among all ranks, on three lanes each way at once. The schedule follows from the
// seed, and every byte is checked.
func load(t *testing.T, open Opener, size int) {
	const seed, lanes = 20260101, 3
	t.Logf("seed %d", seed)
	c := start(t, open, size, nil, func(_ int, c *transport.Config) { c.Lanes, c.FrameBytes = lanes, 32<<10 })
	c.together(t, func(rank int, m transport.Mesh) error {
		var flows []Flow
		for k := range (size - 1) * lanes {
			peer, lane := (rank+1+k/lanes)%size, k%lanes
			out, in := loadStream(c, seed, rank, peer, lane), loadStream(c, seed, peer, rank, lane)
			flows = append(flows,
				&lazy{Flow: out.Sender(m, Mixed), seed: Mix(seed, uint64(rank), uint64(k), 0)},
				&lazy{Flow: in.Receiver(m, Mixed), seed: Mix(seed, uint64(rank), uint64(k), 1)})
		}
		return Drive(m, limit, flows...)
	})
}

func loadStream(c *cluster, seed uint64, src, dst, lane int) *Stream {
	s := c.stream(src, dst, lane, make([]int, 400/len(c.meshes))...)
	for i := range s.Sizes {
		x := Mix(seed, uint64(src), uint64(dst), uint64(lane), uint64(i))
		s.Sizes[i] = int(x>>16) & (1<<(x%16) - 1) // small frames as often as large ones
	}
	return s
}

// lazy is a Flow that rests for a turn or more after it has moved something, as its seed says.
type lazy struct {
	Flow
	seed, turn uint64
	rest       uint64 // turns
}

func (l *lazy) Step() (moved, done bool, err error) {
	if l.rest > 0 {
		l.rest--
		return true, false, nil
	}
	moved, done, err = l.Flow.Step()
	if moved {
		l.turn++
		l.rest = Mix(l.seed, l.turn) % 4
	}
	return moved, done, err
}
