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

// Algorithm is how an operation is carried out.
type Algorithm string

// The algorithms. Which collectives have which, DefaultRules shows.
const (
	LL        Algorithm = "ll"         // one kernel, data with flags; all_reduce: everything to everybody
	LLTwoShot Algorithm = "ll-twoshot" // all_reduce by LL: reduce the own part, then spread it
	LL128     Algorithm = "ll128"      // all_reduce: as LL, but 120 of 128 bytes are data; broadcast: from rank to rank
	Sentinel  Algorithm = "sentinel"   // from rank to rank, all of 16 bytes are data; all_reduce: round the ring
	Tiles     Algorithm = "tiles"      // one kernel, pushed tiles and barriers by block
	Direct    Algorithm = "direct"     // registered tensors: stored in the peers' outputs; all_reduce from tiles, broadcast in a chain
	Fused     Algorithm = "fused"      // copy engines round the ring, and one kernel that goes behind them
	CopyRing  Algorithm = "copy-ring"  // copy engines and fold kernels, round the ring; all_to_all: to one peer after the other

	Rotation Algorithm = "rotation" // all_gather, all_to_all: tiles, to one peer after the other; tiles where lengths differ
	Chain    Algorithm = "chain"    // broadcast: tiles, from rank to rank

	CopyDirect   Algorithm = "copy-direct"   // registered tensors: copied into the outputs by copy engines; all_reduce when a ring has reduced the parts
	LL128TwoShot Algorithm = "ll128-twoshot" // all_reduce by LL128: reduce the own part, then spread it
)

// Rule is a rule of the table: the algorithm of operations of a collective in groups of at most MaxSize ranks with at most
// MaxBytes. The bytes are those of the whole tensor of all_reduce, broadcast and reduce, else of the longest part. Zero
// bounds nothing. The first line that fits is taken; one by the sentinel protocol or behind engines, and of a broadcast one by LL128,
// fits devices linked by NVLink alone. All ranks must have the same table.
type Rule struct {
	Coll       plan.Coll
	MaxSize    int
	MaxBytes   int
	Algorithm  Algorithm
	Blocks     int  // at most; of a ring's fold kernels; behind engines one more
	Threads    int  // of a block
	Registered bool // for tensors alone that lie in registered memory, at multiples of 16
	Eager      bool // not where a graph captures the operation, as it then does on all ranks
	Tile       int  // bytes of a tile at most, or of a ring's slice; 0 takes what the symmetric heap has room for
}

// String prints the line, such as "all_reduce ≤4 ranks ≤64 KiB: ll 16x512".
func (c Rule) String() string {
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
	fmt.Fprintf(&b, ": %s %dx%d", c.Algorithm, c.Blocks, c.Threads)
	if c.Tile > 0 {
		fmt.Fprintf(&b, " tile %s", colligo.FormatBytes(int64(c.Tile)))
	}
	return b.String()
}

// DefaultRules is the table for GPUs linked by NVLink (H100, H200). It was tuned on two H200 and on four, driver 580, a process
// for each, with float32; more ranks follow from four. Beyond 128 MiB copy engines take over an all_reduce, for they are faster than
// kernels' stores where slices are long (1 GiB on two H200, by bench -tune: 2,779 µs with a kernel behind them, 2,887 with one for
// each slice, 3,001 by the sentinel protocol). Where algorithms that need NVLink stand before others of the same sizes, those are for devices without it.
func DefaultRules() []Rule {
	all := []Rule{
		{Coll: plan.AllReduce, MaxBytes: 16 << 10, Algorithm: LL, Blocks: 8, Threads: 128},
		{Coll: plan.AllReduce, MaxBytes: 64 << 10, Algorithm: LL, Blocks: 64, Threads: 256},
		{Coll: plan.AllReduce, MaxBytes: 512 << 10, MaxSize: 2, Algorithm: LL128, Blocks: 70, Threads: 512},
		{Coll: plan.AllReduce, MaxBytes: 128 << 10, Algorithm: LL128, Blocks: 64, Threads: 512},
		{Coll: plan.AllReduce, MaxBytes: 1 << 20, MaxSize: 2, Algorithm: Sentinel, Blocks: 128, Threads: 512},
		{Coll: plan.AllReduce, MaxBytes: 1 << 20, Algorithm: LL128TwoShot, Blocks: 128, Threads: 512},
		{Coll: plan.AllReduce, MaxBytes: 128 << 20, Algorithm: Sentinel, Blocks: 128, Threads: 512},
		{Coll: plan.AllReduce, Algorithm: Fused, Blocks: 32, Threads: 512},
		{Coll: plan.AllReduce, Registered: true, MaxBytes: 128 << 20, Algorithm: Direct, Blocks: 128, Threads: 256},
		{Coll: plan.AllReduce, Registered: true, Eager: true, Algorithm: CopyDirect, Blocks: 128, Threads: 512},
		{Coll: plan.AllReduce, Registered: true, Algorithm: Direct, Blocks: 256, Threads: 256},
		{Coll: plan.AllReduce, MaxBytes: 128 << 20, MaxSize: 2, Algorithm: Tiles, Blocks: 256, Threads: 256},
		{Coll: plan.AllReduce, MaxBytes: 128 << 20, Algorithm: Tiles, Blocks: 128, Threads: 512},
		{Coll: plan.AllReduce, MaxSize: 4, Eager: true, Algorithm: CopyRing, Blocks: 64, Threads: 512},
		{Coll: plan.AllReduce, MaxSize: 2, Algorithm: Tiles, Blocks: 256, Threads: 256},
		{Coll: plan.AllReduce, Algorithm: Tiles, Blocks: 256, Threads: 512},
	}
	for _, c := range []plan.Coll{plan.AllGather, plan.ReduceScatter, plan.AllToAll, plan.Gather, plan.Scatter, plan.Broadcast, plan.Reduce} {
		all = append(all, rulesOf(c)...)
	}
	return all
}

// rulesOf returns those of a collective other than all_reduce.
func rulesOf(c plan.Coll) (all []Rule) {
	all = append(all, Rule{Coll: c, MaxBytes: 4 << 10, Algorithm: LL, Blocks: 8, Threads: 128})
	switch c {
	case plan.AllGather:
		all = append(all, Rule{Coll: c, MaxBytes: 16 << 10, Algorithm: LL, Blocks: 128, Threads: 128})
	case plan.ReduceScatter:
		all = append(all, Rule{Coll: c, MaxSize: 2, MaxBytes: 64 << 10, Algorithm: LL, Blocks: 128, Threads: 64})
	case plan.Broadcast:
		all = append(all,
			Rule{Coll: c, MaxBytes: 8 << 10, Algorithm: LL, Blocks: 8, Threads: 128},
			Rule{Coll: c, MaxBytes: 64 << 10, Algorithm: LL, Blocks: 128, Threads: 256},
			Rule{Coll: c, MaxBytes: 512 << 10, MaxSize: 2, Algorithm: LL, Blocks: 128, Threads: 256},
			Rule{Coll: c, MaxBytes: 512 << 10, Algorithm: LL128, Blocks: 64, Threads: 512},
			Rule{Coll: c, MaxBytes: 128 << 20, Algorithm: Sentinel, Blocks: 128, Threads: 512},
			Rule{Coll: c, MaxSize: 2, Algorithm: Fused, Blocks: 32, Threads: 512},
			Rule{Coll: c, Algorithm: Sentinel, Blocks: 128, Threads: 512})
	}
	all = append(all,
		Rule{Coll: c, MaxBytes: 256 << 10, Algorithm: LL, Blocks: 128, Threads: 256},
		Rule{Coll: c, MaxBytes: 512 << 10, MaxSize: 2, Algorithm: LL, Blocks: 128, Threads: 512})
	switch c {
	case plan.AllGather, plan.AllToAll:
		all = append(all,
			Rule{Coll: c, Registered: true, MaxBytes: 32 << 20, Algorithm: Direct, Blocks: 256, Threads: 256},
			Rule{Coll: c, Registered: true, Eager: true, Algorithm: CopyDirect, Blocks: 128, Threads: 512},
			Rule{Coll: c, MaxBytes: 1 << 20, Algorithm: Rotation, Blocks: 128, Threads: 512})
		if c == plan.AllGather {
			all = append(all,
				Rule{Coll: c, MaxBytes: 24 << 20, Algorithm: Rotation, Blocks: 256, Threads: 320, Tile: 16 << 10},
				Rule{Coll: c, Algorithm: Fused, Blocks: 32, Threads: 512})
		} else {
			all = append(all,
				Rule{Coll: c, MaxSize: 2, MaxBytes: 32 << 20, Algorithm: Rotation, Blocks: 256, Threads: 320, Tile: 16 << 10},
				Rule{Coll: c, MaxSize: 2, Algorithm: Fused, Blocks: 32, Threads: 512})
		}
		all = append(all, Rule{Coll: c, Algorithm: Rotation, Blocks: 256, Threads: 320, Tile: 16 << 10})
	case plan.Broadcast:
		all = append(all,
			Rule{Coll: c, MaxBytes: 96 << 20, Algorithm: Chain, Blocks: 64, Threads: 512, Tile: 24 << 10},
			Rule{Coll: c, Algorithm: Chain, Blocks: 128, Threads: 512})
	case plan.ReduceScatter:
		all = append(all,
			Rule{Coll: c, MaxBytes: 32 << 20, Algorithm: Tiles, Blocks: 128, Threads: 512},
			Rule{Coll: c, MaxSize: 2, MaxBytes: 48 << 20, Algorithm: Tiles, Blocks: 128, Threads: 512},
			Rule{Coll: c, MaxSize: 2, Algorithm: Fused, Blocks: 32, Threads: 512},
			Rule{Coll: c, Algorithm: Tiles, Blocks: 256, Threads: 512})
	case plan.Reduce:
		all = append(all,
			Rule{Coll: c, MaxSize: 2, MaxBytes: 12 << 20, Algorithm: Tiles, Blocks: 128, Threads: 512},
			Rule{Coll: c, MaxBytes: 48 << 20, Algorithm: Tiles, Blocks: 256, Threads: 256},
			Rule{Coll: c, MaxSize: 2, Algorithm: Fused, Blocks: 32, Threads: 512},
			Rule{Coll: c, Algorithm: Tiles, Blocks: 256, Threads: 256})
	default:
		all = append(all, Rule{Coll: c, Algorithm: Tiles, Blocks: 256, Threads: 256})
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

// checkRules refuses lines that no operation could follow.
func checkRules(all []Rule) error {
	for i, c := range all {
		if c.Blocks < 1 || c.Blocks > maxBlocks || c.Threads < 32 || c.Threads > 512 || c.Threads%32 != 0 {
			return fmt.Errorf("rule %d (%v): a grid has 1 to %d blocks of 32 to 512 threads, in whole warps", i, c, maxBlocks)
		}
		if !c.Algorithm.Serves(c.Coll) || (c.Algorithm == Direct || c.Algorithm == CopyDirect) && !c.Registered {
			return fmt.Errorf("rule %d (%v): there is no such algorithm", i, c)
		}
	}
	return nil
}

// Serves reports whether a collective can use this algorithm.
func (w Algorithm) Serves(c plan.Coll) bool {
	switch w {
	case LLTwoShot, LL128TwoShot:
		return c == plan.AllReduce
	case Fused:
		return c == plan.AllReduce || c == plan.AllGather || c == plan.AllToAll || c == plan.Broadcast || c == plan.ReduceScatter || c == plan.Reduce
	case LL128, Sentinel:
		return c == plan.AllReduce || c == plan.Broadcast
	case CopyRing, CopyDirect:
		return c == plan.AllReduce || c == plan.AllGather || c == plan.AllToAll
	case Rotation:
		return c == plan.AllGather || c == plan.AllToAll
	case Chain:
		return c == plan.Broadcast
	case Direct:
		return c == plan.AllReduce || c == plan.Broadcast || c == plan.AllGather || c == plan.AllToAll
	case LL, Tiles:
		return c >= plan.AllReduce && c <= plan.Scatter
	}
	return false
}

// sortRules picks the lines that fit the group.
func (b *backend) sortRules() {
	for _, c := range b.options.Rules {
		if b.size <= orAny(c.MaxSize) && (b.linked || !c.needsNVLink()) && (b.size <= 2 || !c.needsPair()) {
			b.rules[c.Coll] = append(b.rules[c.Coll], c)
		}
	}
}

func (c *Rule) needsNVLink() bool {
	return c.Algorithm == Sentinel || c.Algorithm == Fused || c.Algorithm == LL128 && c.Coll == plan.Broadcast
}

// needsPair reports whether the algorithm is for two ranks at most: among more the ring would need memory for what is on its way.
func (c *Rule) needsPair() bool {
	return c.Algorithm == Fused && (c.Coll == plan.ReduceScatter || c.Coll == plan.Reduce || c.Coll == plan.AllToAll)
}

// pick returns the line for an operation. What no line covers goes by tiles.
func (b *backend) pick(coll plan.Coll, bytes int) Rule { return b.pickFor(coll, bytes, nil, 0) }

// pickFor is pick for a tensor at an address that lies in a window, if w is not nil, without some algorithms.
func (b *backend) pickFor(coll plan.Coll, bytes int, w *window, at cuda.Pointer, without ...Algorithm) Rule {
	registered := w != nil && w.aligned(at, 16)
	for i := range b.rules[coll] {
		c := &b.rules[coll][i]
		if bytes <= orAny(c.MaxBytes) && (registered || !c.Registered) && !(c.Eager && b.captured()) && !slices.Contains(without, c.Algorithm) {
			return *c
		}
	}
	return Rule{Coll: coll, Algorithm: Tiles, Blocks: maxBlocks, Threads: 256}
}

func orAny(n int) int {
	if n == 0 {
		return math.MaxInt
	}
	return n
}

// digest is equal for equal tables. Lines can print alike and differ: their bounds are rounded.
func digest(all []Rule) string {
	return fmt.Sprintf("rules %x", sha256.Sum256(fmt.Appendf(nil, "%#v", all)))[:24]
}
