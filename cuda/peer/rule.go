package peer

import (
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda/peer/internal/symheap"
	"github.com/colligo-go/colligo/plan"
)

// Rule is a rule of the table: the algorithm of operations of a collective in groups of at most MaxSize ranks with at most
// MaxBytes. The bytes are those of the whole tensor of all_reduce, broadcast and reduce, else of the longest part. Zero
// bounds nothing. The first rule that covers an operation decides, unless its algorithm and all fallbacks do not fit. A rule
// whose algorithm needs NVLink is for devices linked by it alone. All ranks must have the same table.
type Rule struct {
	Coll       plan.Coll
	MaxSize    int
	MaxBytes   int
	Algorithm  Algorithm
	Blocks     int  // at most; of a ring's fold kernels; behind engines one more
	Threads    int  // of a block
	Registered bool // for tensors alone that lie in registered memory, at multiples of 16
	Eager      bool // not where a graph captures the operation, as it then does on all ranks
	Tile       int  // bytes of a tile at most, or of a ring's slice; 0 takes as many as the symmetric heap has room for
}

// String prints the rule, such as "all_reduce ≤4 ranks ≤64 KiB: ll 16x512".
func (r Rule) String() string {
	var b strings.Builder
	b.WriteString(r.Coll.String())
	if r.MaxSize > 0 {
		fmt.Fprintf(&b, " ≤%d ranks", r.MaxSize)
	}
	if r.MaxBytes > 0 {
		fmt.Fprintf(&b, " ≤%s", colligo.FormatBytes(int64(r.MaxBytes)))
	}
	if r.Registered {
		b.WriteString(" registered")
	}
	if r.Eager {
		b.WriteString(" eager")
	}
	fmt.Fprintf(&b, ": %s %dx%d", r.Algorithm, r.Blocks, r.Threads)
	if r.Tile > 0 {
		fmt.Fprintf(&b, " tile %s", colligo.FormatBytes(int64(r.Tile)))
	}
	return b.String()
}

// checkRules refuses rules that no operation could follow.
func checkRules(all []Rule) error {
	for i, c := range all {
		if c.Blocks < 1 || c.Blocks > symheap.MaxBlocks || c.Threads < 32 || c.Threads > 512 || c.Threads%32 != 0 {
			return fmt.Errorf("rule %d (%v): a grid has 1 to %d blocks of 32 to 512 threads, in whole warps", i, c, symheap.MaxBlocks)
		}
		if !c.Algorithm.Serves(c.Coll) || c.Algorithm.Registered() && !c.Registered {
			return fmt.Errorf("rule %d (%v): there is no such algorithm", i, c)
		}
	}
	return nil
}

// digest is equal for equal tables. Lines can print alike and differ: their bounds are rounded.
func digest(all []Rule) string {
	return fmt.Sprintf("rules %x", sha256.Sum256(fmt.Appendf(nil, "%#v", all)))[:24]
}
