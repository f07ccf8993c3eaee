package pg

import (
	"fmt"
	"strings"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/plan"
	"github.com/colligo-go/colligo/ring"
	"github.com/colligo-go/colligo/tree"
)

// Choice is one line of the table by which a planner is picked: the first line that fits is taken.
type Choice struct {
	Coll             plan.Coll
	Medium           string // "shm", "tcp", "sim"; empty fits all
	MinSize, MaxSize int    // ranks; a MaxSize of 0 has no limit
	MaxBytes         int    // of the whole tensor; 0 has no limit
	Algo             string // one of Algorithms(Coll)
	Lanes            int    // 0 means 1
	ChunkBytes       int    // 0 leaves it to the planner
}

type named struct {
	name    string
	planner plan.Planner
}

// planners lists the planners of each collective; the last fits every shape and is taken where no line fits.
func planners(c plan.Coll) []named {
	switch c {
	case plan.AllReduce:
		return []named{{"direct", tree.DirectAllReduce}, {"halving_doubling", tree.HalvingDoublingAllReduce}, {"circulant", tree.CirculantAllReduce},
			{"double_tree", tree.DoubleTreeAllReduce}, {"ring", ring.AllReduce}}
	case plan.Broadcast:
		return []named{{"binomial", tree.BinomialBroadcast}, {"double_tree", tree.DoubleTreeBroadcast}, {"chain", ring.Broadcast}}
	case plan.Reduce:
		return []named{{"binomial", tree.BinomialReduce}, {"double_tree", tree.DoubleTreeReduce}, {"chain", ring.Reduce}}
	case plan.AllGather:
		return []named{{"direct", tree.DirectAllGather}, {"doubling", tree.DoublingAllGather}, {"ring", ring.AllGather}}
	case plan.ReduceScatter:
		return []named{{"halving", tree.HalvingReduceScatter}, {"ring", ring.ReduceScatter}}
	case plan.AllToAll:
		return []named{{"rotation", ring.AllToAll}}
	case plan.Gather:
		return []named{{"binomial", tree.BinomialGather}}
	case plan.Scatter:
		return []named{{"binomial", tree.BinomialScatter}}
	case plan.Barrier:
		return []named{{"dissemination", tree.Dissemination}}
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

func plannerNamed(c plan.Coll, name string) (plan.Planner, error) {
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

// choose returns the line for a shape. The fallback is the collective's last planner.
func choose(table []Choice, c plan.Coll, medium string, size, bytes int) Choice {
	for _, l := range table {
		if l.Coll == c && (l.Medium == "" || l.Medium == medium) && size >= l.MinSize &&
			(l.MaxSize == 0 || size <= l.MaxSize) && (l.MaxBytes == 0 || bytes <= l.MaxBytes) {
			return l
		}
	}
	all := planners(c)
	if len(all) == 0 {
		return Choice{Coll: c} // send and recv have no plans
	}
	return Choice{Coll: c, Algo: all[len(all)-1].name}
}

// checkChoices refuses lines that name no planner.
func checkChoices(table []Choice) error {
	for _, l := range table {
		if _, err := plannerNamed(l.Coll, l.Algo); err != nil {
			return err
		}
		if l.Lanes < 0 || l.Lanes > maxLanes || l.ChunkBytes < 0 {
			return fmt.Errorf("%v %s: %d lanes, chunks of %d bytes; allowed are at most %d lanes", l.Coll, l.Algo, l.Lanes, l.ChunkBytes, maxLanes)
		}
	}
	return nil
}

// forced makes a table that uses one algorithm for each collective named.
func forced(algo map[string]string, table []Choice) ([]Choice, error) {
	var first []Choice
	for name, a := range algo {
		c, err := plan.ParseColl(name)
		if err != nil {
			return nil, err
		}
		first = append(first, Choice{Coll: c, Algo: a})
	}
	all := append(first, table...)
	return all, checkChoices(all)
}

// Algorithm returns the name of the planner that a collective of so many bytes would use, nothing for send and recv. An
// all_to_all is chosen as one of 0 bytes: its ranks may have different splits.
func (g *Group) Algorithm(c plan.Coll, bytes int) string {
	g = g.orOutside()
	return choose(g.choices, c, g.Transport(), g.size, bytes).Algo
}

// Choices returns the group's table.
func (g *Group) Choices() []Choice { return append([]Choice(nil), g.orOutside().choices...) }

// String prints the line, for example "all_reduce shm ranks 2-4 up to 4 KiB: direct, lanes 1".
func (l Choice) String() string {
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
	if l.MaxBytes > 0 {
		b.WriteString(" up to " + colligo.FormatBytes(int64(l.MaxBytes)))
	}
	fmt.Fprintf(&b, ": %s, lanes %d", l.Algo, max(l.Lanes, 1))
	if l.ChunkBytes > 0 {
		b.WriteString(", chunks of " + colligo.FormatBytes(int64(l.ChunkBytes)))
	}
	return b.String()
}
