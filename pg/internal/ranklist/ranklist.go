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

// Text prints ranks as "rank 3" or "ranks 0-2, 5".
func Text(ranks []int) string {
	var b strings.Builder
	b.WriteString(Verb(ranks, "rank ", "ranks "))
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
