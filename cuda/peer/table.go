package peer

import (
	"crypto/sha256"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/plan"
)

// Way is how an operation is carried out.
type Way string

// The ways. Which collectives have which, DefaultChoices shows.
const (
	Packets Way = "packets" // one kernel, data with flags; all_reduce: everything to everybody
	TwoShot Way = "twoshot" // all_reduce by packets: reduce the own part, then spread it
	Rows    Way = "rows"    // all_reduce: as packets, but 120 of 128 bytes are data; broadcast: from rank to rank
	Lines   Way = "lines"   // from rank to rank, all of 16 bytes are data; all_reduce: round the ring
	Tiles   Way = "tiles"   // one kernel, pushed tiles and barriers by block
	Direct  Way = "direct"  // registered tensors: stored in the peers' outputs; all_reduce from tiles, broadcast in a chain
	Follow  Way = "follow"  // copy engines round the ring, and one kernel that goes behind them
	Ring    Way = "ring"    // copy engines and fold kernels, round the ring; all_to_all: to one peer after the other

	Turns Way = "turns" // all_gather, all_to_all: tiles, to one peer after the other; tiles where lengths differ
	Chain Way = "chain" // broadcast: tiles, from rank to rank

	Copies      Way = "copies" // registered tensors: copied into the outputs by copy engines; all_reduce when a ring has reduced the parts
	RowsTwoShot Way = "rows2"  // all_reduce by rows: reduce the own part, then spread it
)

// Choice is a line of the table: the way of operations of a collective in groups of at most MaxSize ranks with at most
// MaxBytes. The bytes are those of the whole tensor of all_reduce, broadcast and reduce, else of the longest part. Zero
// bounds nothing. The first line that fits is taken; one by lines or behind engines, and of a broadcast one by rows,
// fits devices linked by NVLink alone. All ranks must have the same table.
type Choice struct {
	Coll       plan.Coll
	MaxSize    int
	MaxBytes   int
	Way        Way
	Blocks     int  // at most; of a ring's fold kernels; behind engines one more
	Threads    int  // of a block
	Registered bool // for tensors alone that lie in registered memory, at multiples of 16
	Eager      bool // not where a graph captures the operation, as it then does on all ranks
	Tile       int  // bytes of a tile at most, or of a ring's slice; 0 takes what the heap has room for
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
	if c.Registered {
		b.WriteString(" registered")
	}
	if c.Eager {
		b.WriteString(" eager")
	}
	fmt.Fprintf(&b, ": %s %dx%d", c.Way, c.Blocks, c.Threads)
	if c.Tile > 0 {
		fmt.Fprintf(&b, " tile %s", colligo.FormatBytes(int64(c.Tile)))
	}
	return b.String()
}

// DefaultChoices is the table for GPUs linked by NVLink (H100, H200). It was tuned on two H200 and on four, driver 580, a process
// for each, with float32; more ranks follow from four. Beyond 128 MiB copy engines take over an all_reduce, for they are faster than
// kernels' stores where slices are long (1 GiB on two H200, by bench -tune: 2,779 µs with a kernel behind them, 2,887 with one for
// each slice, 3,001 by lines). Where ways that need NVLink stand before others of the same sizes, those are for devices without it.
func DefaultChoices() []Choice {
	all := []Choice{
		{Coll: plan.AllReduce, MaxBytes: 16 << 10, Way: Packets, Blocks: 8, Threads: 128},
		{Coll: plan.AllReduce, MaxBytes: 64 << 10, Way: Packets, Blocks: 64, Threads: 256},
		{Coll: plan.AllReduce, MaxBytes: 512 << 10, MaxSize: 2, Way: Rows, Blocks: 70, Threads: 512},
		{Coll: plan.AllReduce, MaxBytes: 128 << 10, Way: Rows, Blocks: 64, Threads: 512},
		{Coll: plan.AllReduce, MaxBytes: 1 << 20, MaxSize: 2, Way: Lines, Blocks: 128, Threads: 512},
		{Coll: plan.AllReduce, MaxBytes: 1 << 20, Way: RowsTwoShot, Blocks: 128, Threads: 512},
		{Coll: plan.AllReduce, MaxBytes: 128 << 20, Way: Lines, Blocks: 128, Threads: 512},
		{Coll: plan.AllReduce, Way: Follow, Blocks: 32, Threads: 512},
		{Coll: plan.AllReduce, Registered: true, MaxBytes: 128 << 20, Way: Direct, Blocks: 128, Threads: 256},
		{Coll: plan.AllReduce, Registered: true, Eager: true, Way: Copies, Blocks: 128, Threads: 512},
		{Coll: plan.AllReduce, Registered: true, Way: Direct, Blocks: 256, Threads: 256},
		{Coll: plan.AllReduce, MaxBytes: 128 << 20, MaxSize: 2, Way: Tiles, Blocks: 256, Threads: 256},
		{Coll: plan.AllReduce, MaxBytes: 128 << 20, Way: Tiles, Blocks: 128, Threads: 512},
		{Coll: plan.AllReduce, MaxSize: 4, Eager: true, Way: Ring, Blocks: 64, Threads: 512},
		{Coll: plan.AllReduce, MaxSize: 2, Way: Tiles, Blocks: 256, Threads: 256},
		{Coll: plan.AllReduce, Way: Tiles, Blocks: 256, Threads: 512},
	}
	for _, c := range []plan.Coll{plan.AllGather, plan.ReduceScatter, plan.AllToAll, plan.Gather, plan.Scatter, plan.Broadcast, plan.Reduce} {
		all = append(all, choicesOf(c)...)
	}
	return all
}

// choicesOf returns those of a collective other than all_reduce.
func choicesOf(c plan.Coll) (all []Choice) {
	all = append(all, Choice{Coll: c, MaxBytes: 4 << 10, Way: Packets, Blocks: 8, Threads: 128})
	switch c {
	case plan.AllGather:
		all = append(all, Choice{Coll: c, MaxBytes: 16 << 10, Way: Packets, Blocks: 128, Threads: 128})
	case plan.ReduceScatter:
		all = append(all, Choice{Coll: c, MaxSize: 2, MaxBytes: 64 << 10, Way: Packets, Blocks: 128, Threads: 64})
	case plan.Broadcast:
		all = append(all,
			Choice{Coll: c, MaxBytes: 8 << 10, Way: Packets, Blocks: 8, Threads: 128},
			Choice{Coll: c, MaxBytes: 64 << 10, Way: Packets, Blocks: 128, Threads: 256},
			Choice{Coll: c, MaxBytes: 512 << 10, MaxSize: 2, Way: Packets, Blocks: 128, Threads: 256},
			Choice{Coll: c, MaxBytes: 512 << 10, Way: Rows, Blocks: 64, Threads: 512},
			Choice{Coll: c, MaxBytes: 128 << 20, Way: Lines, Blocks: 128, Threads: 512},
			Choice{Coll: c, MaxSize: 2, Way: Follow, Blocks: 32, Threads: 512},
			Choice{Coll: c, Way: Lines, Blocks: 128, Threads: 512})
	}
	all = append(all,
		Choice{Coll: c, MaxBytes: 256 << 10, Way: Packets, Blocks: 128, Threads: 256},
		Choice{Coll: c, MaxBytes: 512 << 10, MaxSize: 2, Way: Packets, Blocks: 128, Threads: 512})
	switch c {
	case plan.AllGather, plan.AllToAll:
		all = append(all,
			Choice{Coll: c, Registered: true, MaxBytes: 32 << 20, Way: Direct, Blocks: 256, Threads: 256},
			Choice{Coll: c, Registered: true, Eager: true, Way: Copies, Blocks: 128, Threads: 512},
			Choice{Coll: c, MaxBytes: 1 << 20, Way: Turns, Blocks: 128, Threads: 512})
		if c == plan.AllGather {
			all = append(all,
				Choice{Coll: c, MaxBytes: 24 << 20, Way: Turns, Blocks: 256, Threads: 320, Tile: 16 << 10},
				Choice{Coll: c, Way: Follow, Blocks: 32, Threads: 512})
		} else {
			all = append(all,
				Choice{Coll: c, MaxSize: 2, MaxBytes: 32 << 20, Way: Turns, Blocks: 256, Threads: 320, Tile: 16 << 10},
				Choice{Coll: c, MaxSize: 2, Way: Follow, Blocks: 32, Threads: 512})
		}
		all = append(all, Choice{Coll: c, Way: Turns, Blocks: 256, Threads: 320, Tile: 16 << 10})
	case plan.Broadcast:
		all = append(all,
			Choice{Coll: c, MaxBytes: 96 << 20, Way: Chain, Blocks: 64, Threads: 512, Tile: 24 << 10},
			Choice{Coll: c, Way: Chain, Blocks: 128, Threads: 512})
	case plan.ReduceScatter:
		all = append(all,
			Choice{Coll: c, MaxBytes: 32 << 20, Way: Tiles, Blocks: 128, Threads: 512},
			Choice{Coll: c, MaxSize: 2, MaxBytes: 48 << 20, Way: Tiles, Blocks: 128, Threads: 512},
			Choice{Coll: c, MaxSize: 2, Way: Follow, Blocks: 32, Threads: 512},
			Choice{Coll: c, Way: Tiles, Blocks: 256, Threads: 512})
	case plan.Reduce:
		all = append(all,
			Choice{Coll: c, MaxSize: 2, MaxBytes: 12 << 20, Way: Tiles, Blocks: 128, Threads: 512},
			Choice{Coll: c, MaxBytes: 48 << 20, Way: Tiles, Blocks: 256, Threads: 256},
			Choice{Coll: c, MaxSize: 2, Way: Follow, Blocks: 32, Threads: 512},
			Choice{Coll: c, Way: Tiles, Blocks: 256, Threads: 256})
	default:
		all = append(all, Choice{Coll: c, Way: Tiles, Blocks: 256, Threads: 256})
	}
	return all
}

// captured reports whether a graph captures the operation at hand.
func (b *backend) captured() bool {
	if b.running.t.Device == nil {
		return false
	}
	yes, _, err := capture(b.running.t, b.running.s)
	return yes && err == nil
}

// checkChoices refuses lines that no operation could follow.
func checkChoices(all []Choice) error {
	for i, c := range all {
		if c.Blocks < 1 || c.Blocks > maxBlocks || c.Threads < 32 || c.Threads > 512 || c.Threads%32 != 0 {
			return fmt.Errorf("choice %d (%v): a grid has 1 to %d blocks of 32 to 512 threads, in whole warps", i, c, maxBlocks)
		}
		if !c.Way.Serves(c.Coll) || (c.Way == Direct || c.Way == Copies) && !c.Registered {
			return fmt.Errorf("choice %d (%v): there is no such way", i, c)
		}
	}
	return nil
}

// Serves reports whether a collective can go this way.
func (w Way) Serves(c plan.Coll) bool {
	switch w {
	case TwoShot, RowsTwoShot:
		return c == plan.AllReduce
	case Follow:
		return c == plan.AllReduce || c == plan.AllGather || c == plan.AllToAll || c == plan.Broadcast || c == plan.ReduceScatter || c == plan.Reduce
	case Rows, Lines:
		return c == plan.AllReduce || c == plan.Broadcast
	case Ring, Copies:
		return c == plan.AllReduce || c == plan.AllGather || c == plan.AllToAll
	case Turns:
		return c == plan.AllGather || c == plan.AllToAll
	case Chain:
		return c == plan.Broadcast
	case Direct:
		return c == plan.AllReduce || c == plan.Broadcast || c == plan.AllGather || c == plan.AllToAll
	case Packets, Tiles:
		return c >= plan.AllReduce && c <= plan.Scatter
	}
	return false
}

// sortChoices picks the lines that fit the group.
func (b *backend) sortChoices() {
	for _, c := range b.options.Choices {
		if b.size <= orAny(c.MaxSize) && (b.linked || !c.needsNVLink()) && (b.size <= 2 || !c.needsPair()) {
			b.choices[c.Coll] = append(b.choices[c.Coll], c)
		}
	}
}

func (c *Choice) needsNVLink() bool {
	return c.Way == Lines || c.Way == Follow || c.Way == Rows && c.Coll == plan.Broadcast
}

// needsPair reports whether the way is for two ranks at most: among more the ring would need memory for what is on its way.
func (c *Choice) needsPair() bool {
	return c.Way == Follow && (c.Coll == plan.ReduceScatter || c.Coll == plan.Reduce || c.Coll == plan.AllToAll)
}

// pick returns the line for an operation. What no line covers goes by tiles.
func (b *backend) pick(coll plan.Coll, bytes int) Choice { return b.pickFor(coll, bytes, nil, 0) }

// pickFor is pick for a tensor at an address that lies in a window, if w is not nil, without some ways.
func (b *backend) pickFor(coll plan.Coll, bytes int, w *window, at cuda.Pointer, without ...Way) Choice {
	registered := w != nil && w.aligned(at, 16)
	for i := range b.choices[coll] {
		c := &b.choices[coll][i]
		if bytes <= orAny(c.MaxBytes) && (registered || !c.Registered) && !(c.Eager && b.captured()) && !slices.Contains(without, c.Way) {
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

// digest is equal for equal tables. Lines can print alike and differ: their bounds are rounded.
func digest(all []Choice) string {
	return fmt.Sprintf("choices %x", sha256.Sum256(fmt.Appendf(nil, "%#v", all)))[:24]
}
