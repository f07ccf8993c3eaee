package sim

import (
	"fmt"
	"strings"
	"time"
)

// SetDelay changes the bounds of delays from now on; Config.Delay stays before them. Lanes stay in order.
func (n *Net) SetDelay(least, most time.Duration) { n.inject("delay %v %v", least, most) }

// Kill ends every mesh of a rank as the death of its process would. Frames that it has sent still arrive, then its peers'
// links report ErrLost. Its own calls report an error that wraps transport.ErrClosed. The rank may open new meshes.
func (n *Net) Kill(rank int) { n.inject("kill %d", rank) }

// KillAfter kills a rank when it has sent so many more frames.
func (n *Net) KillAfter(rank int, frames uint64) { n.inject("killafter %d %d", rank, frames) }

// Pause makes a rank silent, as a stopped process is: what it sends and what is sent to it is held until Resume. Nobody
// is told that it is lost.
func (n *Net) Pause(rank int) { n.inject("pause %d", rank) }

// Resume ends Pause.
func (n *Net) Resume(rank int) { n.inject("resume %d", rank) }

// Partition holds everything between ranks of different sides until Heal. The ranks that no side names are a side too.
func (n *Net) Partition(sides ...[]int) { n.inject("partition%s", sideText(sides)) }

// Heal ends Partition.
func (n *Net) Heal() { n.inject("heal") }

// Sever breaks the links of the open meshes between ranks of different sides: each reports ErrLost. Frames and notes on
// their way between them do not arrive. The ranks that no side names are a side too.
func (n *Net) Sever(sides ...[]int) { n.inject("sever%s", sideText(sides)) }

// Slow multiplies the delays of everything to and from a rank; a delay under a microsecond counts as one. Factor 1 ends it.
func (n *Net) Slow(rank int, factor float64) { n.inject("slow %d %v", rank, factor) }

// SlowLink multiplies the delays of everything that src sends to dst, as Slow does for everything to and from a rank.
func (n *Net) SlowLink(src, dst int, factor float64) { n.inject("slowlink %d %d %v", src, dst, factor) }

// Corrupt flips a bit of a frame that has not been sent yet, by its index on its lane. The bit is one of the header or, if
// the sender's Config.Checksum is set, of header or payload. The link of dst to src then reports ErrCorrupt.
func (n *Net) Corrupt(src, dst, lane int, frame uint64) {
	n.inject("corrupt %d %d %d %d", src, dst, lane, frame)
}

func sideText(sides [][]int) string {
	var b strings.Builder
	for _, side := range sides {
		b.WriteByte(' ')
		b.WriteString(strings.ReplaceAll(strings.Trim(fmt.Sprint(side), "[]"), " ", ","))
	}
	return b.String()
}

// inject does a fault now. It panics if the fault is malformed or names ranks that do not exist.
func (n *Net) inject(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pump()
	n.apply(Fault{At: n.clock, Do: fmt.Sprintf(format, args...)})
	n.pump()
}

// apply does a fault; the caller pumps.
func (n *Net) apply(f Fault) {
	do, err := n.parse(f)
	if err != nil {
		panic(err.Error())
	}
	n.done = append(n.done, f)
	n.traceFault(f)
	do()
	n.settle()
	n.release()
}

func setFactor[K comparable](m map[K]float64, k K, factor float64) {
	if factor == 1 {
		delete(m, k)
		return
	}
	m[k] = factor
}
