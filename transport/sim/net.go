package sim

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Config describes a network. The zero value, with a Size, is one without delays or faults.
type Config struct {
	Size     int           // global ranks
	Seed     uint64        // of every choice
	MinDelay time.Duration // a frame, note or loss takes from MinDelay
	MaxDelay time.Duration // to MaxDelay; less than MinDelay counts as MinDelay
	// Reorder draws a delay for each frame, so that lanes overtake one another; without it each link has one delay.
	Reorder bool
	// Delay replaces the three fields above if it is not nil. It must depend on nothing but the frame.
	Delay  func(f Frame) time.Duration
	Faults []Fault     // done by themselves when their time comes
	Trace  func(Event) // is called with everything delivered, in order; it must not call the Net
}

// Frame identifies a frame or a note on its way.
type Frame struct {
	Group    uint32
	Src, Dst int    // global ranks
	Lane     int    // NoteLane for a note
	Index    uint64 // counts the frames of the lane
	Bytes    int    // of the payload
}

// NoteLane stands for the control channel where a lane is asked for.
const NoteLane = -1

// Net connects the ranks of any number of groups. Its methods may be called from any goroutine.
type Net struct {
	config Config
	start  time.Time
	direct atomic.Bool // frames need no scheduling

	mu      sync.Mutex // everything below; taken before any mutex of a mesh
	forming map[uint32]*group
	groups  map[*group]struct{} // complete, with a mesh open
	queue   queue
	clock   time.Duration // what is due until then has happened
	held    []*event      // would have been delivered to or from a silent rank
	timer   *time.Timer
	done    []Fault // faults so far
	faults
}

// faults is what is wrong with a network now.
type faults struct {
	slow      map[int]float64
	slowLink  map[pair]float64
	paused    map[int]bool
	sides     map[int]int // side of each rank, from 1; nil: no partition
	killAfter map[int]uint64
	corrupt   map[spot]bool
}

// pair is a direction between two ranks.
type pair struct{ src, dst int }

// spot is a frame that a fault waits for.
type spot struct {
	pair
	lane  int
	index uint64
}

// New returns a network whose clock starts now. It panics if a fault of the configuration is malformed.
func New(c Config) *Net {
	c.MaxDelay = max(c.MinDelay, c.MaxDelay)
	n := &Net{config: c, start: time.Now(), forming: map[uint32]*group{}, groups: map[*group]struct{}{}}
	n.faults = faults{slow: map[int]float64{}, slowLink: map[pair]float64{}, paused: map[int]bool{},
		killAfter: map[int]uint64{}, corrupt: map[spot]bool{}}
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, f := range c.Faults {
		if _, err := n.parse(f); err != nil {
			panic(err.Error())
		}
		n.add(&event{at: max(f.At, 0), kind: isFault, index: uint64(i), fault: f})
	}
	n.settle()
	n.pump()
	return n
}

// String says on one line what is needed to build the network again, except for Config.Delay and Faults.
func (n *Net) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	c := &n.config
	return fmt.Sprintf("sim: size %d, seed %d, delay %v to %v, reorder %v", c.Size, c.Seed, c.MinDelay, c.MaxDelay, c.Reorder)
}

// now returns the time since the network began.
func (n *Net) now() time.Duration { return time.Since(n.start) }

// settle decides anew whether frames need scheduling.
func (n *Net) settle() {
	c := &n.config
	n.direct.Store(c.MaxDelay == 0 && c.Delay == nil && c.Trace == nil && !n.silent() && len(n.slow)+len(n.slowLink) == 0 &&
		len(n.killAfter)+len(n.corrupt) == 0)
}

// silent says whether any rank cannot be heard by another.
func (n *Net) silent() bool { return len(n.paused) > 0 || n.sides != nil }

// holds says whether nothing passes between two ranks now.
func (n *Net) holds(src, dst int) bool {
	return n.paused[src] || n.paused[dst] || n.sides[src] != n.sides[dst]
}

// delay returns how long a frame is on its way.
func (n *Net) delay(f Frame) time.Duration {
	c := &n.config
	d := c.MinDelay
	switch width := uint64(c.MaxDelay - c.MinDelay); {
	case c.Delay != nil:
		d = c.Delay(f)
	case width > 0 && c.Reorder:
		d += time.Duration(n.hash(f) % (width + 1))
	case width > 0:
		d += time.Duration(n.hash(Frame{Group: f.Group, Src: f.Src, Dst: f.Dst}) % (width + 1))
	}
	return max(n.slowed(d, f.Src, f.Dst), time.Nanosecond)
}

// slowed stretches a delay by what Slow and SlowLink asked for.
func (n *Net) slowed(d time.Duration, src, dst int) time.Duration {
	factor := 1.0
	for _, f := range []float64{n.slow[src], n.slow[dst], n.slowLink[pair{src, dst}]} {
		if f != 0 {
			factor *= f
		}
	}
	if factor != 1 {
		d = time.Duration(float64(max(d, time.Microsecond)) * factor)
	}
	return d
}

// hash mixes the seed with what identifies a frame (the finaliser of splitmix64 after each word).
func (n *Net) hash(f Frame) uint64 {
	z := n.config.Seed
	for _, w := range [...]uint64{uint64(f.Group), uint64(f.Src), uint64(f.Dst), uint64(f.Lane), f.Index} {
		z += w + 0x9e3779b97f4a7c15
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		z ^= z >> 31
	}
	return z
}
