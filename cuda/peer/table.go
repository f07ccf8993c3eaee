package peer

import (
	"crypto/sha256"
	"fmt"
	"math"
	"strings"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/plan"
)

// Way is how an operation is carried out.
type Way string

// The ways. Which collectives have which, DefaultChoices shows.
const (
	Packets Way = "packets" // one kernel, data with flags; all_reduce: everything to everybody
	TwoShot Way = "twoshot" // all_reduce by packets: reduce the own part, then spread it
	Tiles   Way = "tiles"   // one kernel, pushed tiles and barriers by block
	Ring    Way = "ring"    // copy engines and reduce kernels
)

// Choice is a line of the table: the way of operations of a collective in groups of at most MaxSize ranks with at most
// MaxBytes. The bytes are those of the whole tensor of all_reduce, broadcast and reduce, else of the longest part. Zero
// bounds nothing. The first line that fits is taken. All ranks must have the same table.
type Choice struct {
	Coll     plan.Coll
	MaxSize  int
	MaxBytes int
	Way      Way
	Blocks   int // at most; of a ring's reduce kernels
	Threads  int // of a block
	Tile     int // bytes of a tile at most, or of a ring's chunk; 0 takes what the heap has room for
}

// String prints the line, such as "all_reduce ≤4 ranks ≤64 KiB: packets 16x512".
func (c Choice) String() string {
	var b strings.Builder
	b.WriteString(c.Coll.String())
	if c.MaxSize > 0 {
		fmt.Fprintf(&b, " ≤%d ranks", c.MaxSize)
	}
	if c.MaxBytes > 0 {
		fmt.Fprintf(&b, " ≤%s", colligo.FormatBytes(int64(c.MaxBytes)))
	}
	fmt.Fprintf(&b, ": %s %dx%d", c.Way, c.Blocks, c.Threads)
	if c.Tile > 0 {
		fmt.Fprintf(&b, " tile %s", colligo.FormatBytes(int64(c.Tile)))
	}
	return b.String()
}

// DefaultChoices is the table for GPUs linked by NVLink (H100, H200). Those of all_reduce were measured on four H200,
// NVLink, driver 580, a process for each, with float32; the others follow them. No line takes rings: copies by streams
// that wait for flags reached 260 GB/s there, tiles 350.
func DefaultChoices() []Choice {
	all := []Choice{
		{Coll: plan.AllReduce, MaxBytes: 16 << 10, Way: Packets, Blocks: 8, Threads: 128},
		{Coll: plan.AllReduce, MaxBytes: 64 << 10, Way: Packets, Blocks: 64, Threads: 256},
		{Coll: plan.AllReduce, MaxBytes: 512 << 10, MaxSize: 2, Way: Packets, Blocks: 64, Threads: 512},
		{Coll: plan.AllReduce, MaxBytes: 128 << 10, Way: Packets, Blocks: 64, Threads: 512},
		{Coll: plan.AllReduce, MaxBytes: 4 << 20, MaxSize: 2, Way: Tiles, Blocks: 128, Threads: 256},
		{Coll: plan.AllReduce, MaxBytes: 1 << 20, Way: TwoShot, Blocks: 128, Threads: 512},
		{Coll: plan.AllReduce, MaxBytes: 4 << 20, Way: Tiles, Blocks: 128, Threads: 256},
		{Coll: plan.AllReduce, Way: Tiles, Blocks: 256, Threads: 256},
	}
	for _, c := range []plan.Coll{plan.AllGather, plan.ReduceScatter, plan.AllToAll, plan.Gather, plan.Scatter, plan.Broadcast, plan.Reduce} {
		all = append(all,
			Choice{Coll: c, MaxBytes: 16 << 10, Way: Packets, Blocks: 8, Threads: 128},
			Choice{Coll: c, MaxBytes: 256 << 10, Way: Packets, Blocks: 32, Threads: 512},
			Choice{Coll: c, Way: Tiles, Blocks: 256, Threads: 256})
	}
	return all
}

// checkChoices refuses lines that no operation could follow.
func checkChoices(all []Choice) error {
	for i, c := range all {
		if c.Blocks < 1 || c.Blocks > maxBlocks || c.Threads < 32 || c.Threads > 512 || c.Threads%32 != 0 {
			return fmt.Errorf("choice %d (%v): a grid has 1 to %d blocks of 32 to 512 threads, in whole warps", i, c, maxBlocks)
		}
		if !c.Way.serves(c.Coll) {
			return fmt.Errorf("choice %d (%v): there is no such way", i, c)
		}
	}
	return nil
}

func (w Way) serves(c plan.Coll) bool {
	switch w {
	case TwoShot, Ring:
		return c == plan.AllReduce
	case Packets, Tiles:
		return c >= plan.AllReduce && c <= plan.Scatter
	}
	return false
}

// pick returns the line for an operation. What no line covers goes by tiles.
func (b *backend) pick(coll plan.Coll, bytes int) Choice {
	for i := range b.options.Choices {
		c := &b.options.Choices[i]
		if c.Coll == coll && bytes <= orAny(c.MaxBytes) && b.size <= orAny(c.MaxSize) {
			return *c
		}
	}
	return Choice{Coll: coll, Way: Tiles, Blocks: maxBlocks, Threads: 256}
}

func orAny(n int) int {
	if n == 0 {
		return math.MaxInt
	}
	return n
}

// digest is equal for equal tables.
func digest(all []Choice) string {
	return fmt.Sprintf("choices %x", sha256.Sum256(fmt.Append(nil, all)))[:24]
}
