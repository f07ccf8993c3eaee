// Package tuning picks the algorithm of a collective on the CPU: a table of rules says which planner carries out which shapes
// on which medium. The default table was measured; a program can give another.
//
// Invariants:
//
//  1. Everything that a rule looks at is the same on all ranks of a group, so all ranks pick the same planner.
//  2. The last planner of a collective fits every shape. It is taken where no rule fits.
//  3. Parse reads the text of Format as the same rules.
package tuning

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/colligo-go/colligo/plan"
	"github.com/colligo-go/colligo/ring"
	"github.com/colligo-go/colligo/tree"
)

// MaxLanes is the lanes that a collective may use.
const MaxLanes = 2

// Rule is one line of a table by which a planner is picked: the first rule that fits is taken.
type Rule struct {
	Coll             plan.Coll
	Medium           string // "shm", "tcp", "sim"; empty fits all
	MinSize, MaxSize int    // ranks; a MaxSize of 0 has no limit
	Cores            Cores  // whether ranks outnumber cores
	OverBytes        int    // for tensors of more bytes than these
	MaxBytes         int    // of the whole tensor; 0 has no limit
	Algo             string // one of Algorithms(Coll)
	Lanes            int    // 0 means 1
	ChunkBytes       int    // 0 leaves it to the planner
}

// Cores says for which groups a rule is: one that fits either way, or by how many cores each host has for its ranks.
type Cores uint8

// The values of Rule.Cores.
const (
	AnyCores Cores = iota
	Enough         // every rank can have a core of its own
	Crowded        // on some host there are more ranks than cores
	Spare          // every rank can have two cores
)

// String is how a rule's line says it; AnyCores is empty.
func (c Cores) String() string { return [...]string{"", "enough-cores", "crowded", "spare-cores"}[c] }

// Place is where a collective runs, the same on all ranks of the group.
type Place struct {
	Medium  string
	Size    int  // ranks
	Crowded bool // on some host there are more ranks than cores
	Spare   bool // on every host there are two cores for each rank
}

// fits reports whether a rule is for such a place.
func (l *Rule) fits(at Place) bool {
	return (l.Medium == "" || l.Medium == at.Medium) && at.Size >= l.MinSize && (l.MaxSize == 0 || at.Size <= l.MaxSize) && l.Cores.fit(at)
}

// fit reports whether a place has such cores.
func (c Cores) fit(at Place) bool {
	switch c {
	case Enough:
		return !at.Crowded
	case Crowded:
		return at.Crowded
	case Spare:
		return at.Spare
	}
	return true
}

type named struct {
	name    string
	planner plan.Planner
}

// zeroCopy ends the name of an algorithm whose payloads stay in their place until the peer has read them, where the medium can do that.
// That saves one of two copies, and takes a system call and the wait for the peer.
const zeroCopy = "_zero_copy"

// ZeroCopy reports whether an algorithm leaves payloads in their place.
func ZeroCopy(algo string) bool { return strings.HasSuffix(algo, zeroCopy) }

// planners lists the planners of each collective; the last fits every shape and is taken where no rule fits.
func planners(c plan.Coll) []named {
	switch c {
	case plan.AllReduce:
		return []named{{"direct", tree.DirectAllReduce}, {"recursive_doubling", tree.RecursiveDoublingAllReduce},
			{"halving_doubling", tree.HalvingDoublingAllReduce}, {"circulant", tree.CirculantAllReduce},
			{"double_tree", tree.DoubleTreeAllReduce}, {"ring" + zeroCopy, ring.AllReduce}, {"ring", ring.AllReduce}}
	case plan.Broadcast:
		return []named{{"binomial", tree.BinomialBroadcast}, {"double_tree", tree.DoubleTreeBroadcast},
			{"chain" + zeroCopy, ring.Broadcast}, {"chain", ring.Broadcast}}
	case plan.Reduce:
		return []named{{"binomial", tree.BinomialReduce}, {"double_tree", tree.DoubleTreeReduce}, {"chain", ring.Reduce}}
	case plan.AllGather:
		return []named{{"direct", tree.DirectAllGather}, {"doubling", tree.DoublingAllGather},
			{"direct" + zeroCopy, tree.DirectAllGather}, {"ring" + zeroCopy, ring.AllGather}, {"ring", ring.AllGather}}
	case plan.ReduceScatter:
		return []named{{"direct", tree.DirectReduceScatter}, {"halving", tree.HalvingReduceScatter},
			{"ring" + zeroCopy, ring.ReduceScatter}, {"ring", ring.ReduceScatter}}
	case plan.AllToAll:
		return []named{{"rotation" + zeroCopy, ring.AllToAll}, {"rotation", ring.AllToAll}}
	case plan.Gather:
		return []named{{"binomial" + zeroCopy, tree.BinomialGather}, {"binomial", tree.BinomialGather}}
	case plan.Scatter:
		return []named{{"binomial" + zeroCopy, tree.BinomialScatter}, {"binomial", tree.BinomialScatter}}
	case plan.Barrier:
		return []named{{"direct", tree.DirectBarrier}, {"dissemination", tree.Dissemination}}
	}
	return nil
}

// Algorithms returns the names of a collective's planners.
func Algorithms(c plan.Coll) []string {
	var names []string
	for _, p := range planners(c) {
		names = append(names, p.name)
	}
	return names
}

// Planner returns a planner by its name.
func Planner(c plan.Coll, name string) (plan.Planner, error) {
	for _, p := range planners(c) {
		if p.name == name {
			return p.planner, nil
		}
	}
	all := Algorithms(c)
	if all == nil {
		all = []string{"none"}
	}
	return nil, fmt.Errorf("%v has no algorithm %q; there are %s", c, name, strings.Join(all, ", "))
}

// Pick returns the rule for a collective of so many bytes, of the whole tensor.
func Pick(table []Rule, c plan.Coll, at Place, bytes int) Rule {
	for _, l := range table {
		if l.Coll == c && l.fits(at) && (l.OverBytes == 0 || bytes > l.OverBytes) && (l.MaxBytes == 0 || bytes <= l.MaxBytes) {
			return l
		}
	}
	all := planners(c)
	if len(all) == 0 {
		return Rule{Coll: c} // send and recv have no plans
	}
	return Rule{Coll: c, Algo: all[len(all)-1].name}
}

// Check refuses rules that name no planner.
func Check(table []Rule) error {
	for _, l := range table {
		if _, err := Planner(l.Coll, l.Algo); err != nil {
			return err
		}
		if l.Lanes < 0 || l.Lanes > MaxLanes || l.ChunkBytes < 0 {
			return fmt.Errorf("%v %s: %d lanes, chunks of %d bytes; allowed are at most %d lanes", l.Coll, l.Algo, l.Lanes, l.ChunkBytes, MaxLanes)
		}
	}
	return nil
}

// Prefer returns a table that uses one algorithm for each collective named, and else another table.
func Prefer(algo map[string]string, table []Rule) ([]Rule, error) {
	var first []Rule
	for _, name := range slices.Sorted(maps.Keys(algo)) { // the same table on all ranks
		c, err := plan.ParseColl(name)
		if err != nil {
			return nil, err
		}
		first = append(first, Rule{Coll: c, Algo: algo[name]})
	}
	all := append(first, table...)
	return all, Check(all)
}

// String prints the line, for example "all_reduce shm ranks 2-4 up to 4 KiB: direct, lanes 1".
func (l Rule) String() string {
	var b strings.Builder
	b.WriteString(l.Coll.String())
	if l.Medium != "" {
		b.WriteString(" " + l.Medium)
	}
	if l.MinSize > 0 || l.MaxSize > 0 {
		fmt.Fprintf(&b, " ranks %d-", l.MinSize)
		if l.MaxSize > 0 {
			fmt.Fprintf(&b, "%d", l.MaxSize)
		}
	}
	if l.Cores != AnyCores {
		b.WriteString(" " + l.Cores.String())
	}
	if l.OverBytes > 0 {
		b.WriteString(" over " + exactBytes(l.OverBytes))
	}
	if l.MaxBytes > 0 {
		b.WriteString(" up to " + exactBytes(l.MaxBytes))
	}
	fmt.Fprintf(&b, ": %s, lanes %d", l.Algo, max(l.Lanes, 1))
	if l.ChunkBytes > 0 {
		b.WriteString(", chunks of " + exactBytes(l.ChunkBytes))
	}
	return b.String()
}
