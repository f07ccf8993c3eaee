// Package ranklist prints ranks the same way in every message that names several of them. Ranks stand in runs, as in "ranks
// 0-2, 5", with a verb that agrees in number.
//
// Invariants:
//
//  1. Ranks are given in ascending order; the package neither sorts nor removes doubles.
//  2. The package only formats. It knows neither groups nor errors.
package ranklist

import (
	"fmt"
	"strings"
)

// Verb returns the form of a verb that agrees with so many ranks.
func Verb(ranks []int, one, many string) string {
	if len(ranks) == 1 {
		return one
	}
	return many
}

// Both prints ranks of a group, and behind them their numbers in the default group, as "ranks 0-2 (global 4-6)". Global has these
// by rank of the group. Numbers that do not differ, and ranks that the group does not have, are not printed twice.
func Both(ranks, global []int) string {
	differ, there := false, make([]int, 0, len(ranks))
	for _, r := range ranks {
		if r < 0 || r >= len(global) {
			return Text(ranks)
		}
		differ = differ || global[r] != r
		there = append(there, global[r])
	}
	if !differ {
		return Text(ranks)
	}
	return Text(ranks) + " (global " + runs(there) + ")"
}

// Text prints ranks as "rank 3" or "ranks 0-2, 5".
func Text(ranks []int) string { return Verb(ranks, "rank ", "ranks ") + runs(ranks) }

// runs prints numbers, as "0-2, 5".
func runs(ranks []int) string {
	var b strings.Builder
	for i := 0; i < len(ranks); {
		j := i
		for j+1 < len(ranks) && ranks[j+1] == ranks[j]+1 {
			j++
		}
		if i > 0 {
			b.WriteString(", ")
		}
		if fmt.Fprintf(&b, "%d", ranks[i]); j > i {
			fmt.Fprintf(&b, "-%d", ranks[j])
		}
		i = j + 1
	}
	return b.String()
}
