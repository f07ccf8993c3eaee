package engine_test

import (
	"fmt"
	"math/rand/v2"
	"unsafe"

	"github.com/colligo-go/colligo/internal/engine"
)

// wire is a network in memory that does everything a link may do. It refuses frames. It delivers them late, in pieces of any
// size and with bodies behind their heads, all drawn from a seed. It panics when the engine breaks the rules of a link.
type wire struct {
	rng    *rand.Rand
	frame  map[way]int // largest payload
	queues map[lane]*queue
	frames int
}

type way struct{ from, to int }

type lane struct {
	way
	index int
}

// queue is one lane from one rank to another.
type queue struct {
	frames  []frame
	credit  int
	offered *byte // begin of the frame that was refused
	length  int
}

type frame struct {
	total   int
	payload []byte
	open    bool // Arrived has told of it
	dst     *byte
	asked   bool
}

func newWire(rng *rand.Rand) *wire {
	return &wire{rng: rng, frame: map[way]int{}, queues: map[lane]*queue{}}
}

func (w *wire) lane(from, to, index int) *queue {
	key := lane{way{from, to}, index}
	q := w.queues[key]
	if q == nil {
		q = &queue{credit: 1 + w.rng.IntN(3)}
		w.queues[key] = q
	}
	return q
}

func (w *wire) often() bool { return w.rng.IntN(4) > 0 }

// end is one rank's end of a wire.
type end struct {
	*wire
	rank int
}

var _ engine.Port = end{}

func (e end) MaxFrame(peer int) int {
	key := way{e.rank, peer}
	if e.frame[key] == 0 {
		e.frame[key] = 64 << e.rng.IntN(8)
	}
	return e.frame[key]
}

func (e end) Send(peer, index, step, total int, p []byte) (bool, error) {
	q := e.lane(e.rank, peer, index)
	if len(p) > e.MaxFrame(peer) || len(p) == 0 && total > 0 {
		panic(fmt.Sprintf("step %d sends a frame of %d bytes of %d", step, len(p), total))
	}
	if q.offered != nil && (q.offered != unsafe.SliceData(p) || q.length != len(p)) {
		panic(fmt.Sprintf("step %d offers another frame than the one refused", step))
	}
	if len(q.frames) == q.credit || !e.often() {
		q.offered, q.length = unsafe.SliceData(p), len(p)
		return false, nil
	}
	q.offered = nil
	q.frames = append(q.frames, frame{total: total, payload: append([]byte{}, p...)})
	e.frames++
	return true, nil
}

func (e end) Arrived(peer, index int) (n, total int, err error) {
	q := e.lane(peer, e.rank, index)
	if len(q.frames) == 0 || !q.frames[0].open && !e.often() {
		return -1, 0, nil
	}
	q.frames[0].open = true
	return len(q.frames[0].payload), q.frames[0].total, nil
}

func (e end) Body(peer, index int, dst []byte) ([]byte, bool, error) {
	f := &e.lane(peer, e.rank, index).frames[0]
	if !f.open || dst != nil && len(dst) != len(f.payload) || f.asked && f.dst != unsafe.SliceData(dst) {
		panic(fmt.Sprintf("rank %d asks for a body of %d bytes in other memory or too early", e.rank, len(f.payload)))
	}
	f.asked, f.dst = true, unsafe.SliceData(dst)
	if !e.often() {
		copy(dst, f.payload[:len(f.payload)/2]) // a half has come
		return nil, false, nil
	}
	if dst == nil {
		return f.payload, true, nil
	}
	copy(dst, f.payload)
	return dst, true, nil
}

func (e end) Release(peer, index int) {
	q := e.lane(peer, e.rank, index)
	if !q.frames[0].open || !q.frames[0].asked {
		panic("release of a frame that was not taken")
	}
	for i := range q.frames[0].payload {
		q.frames[0].payload[i] = 0xee // the memory is the link's again
	}
	q.frames = q.frames[1:]
}
