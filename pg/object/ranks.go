package object

import (
	"fmt"
	"strings"
)

// rankList prints sorted ranks as "rank 3" or "ranks 0-2, 5".
func rankList(ranks []int) string {
	var b strings.Builder
	if b.WriteString("rank "); len(ranks) > 1 {
		b.Reset()
		b.WriteString("ranks ")
	}
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
