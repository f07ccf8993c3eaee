package torch

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/pg/backend"
)

// TestColors holds colors to those that PyTorch computes: hashed by 2.9 and 2.10, and the lowest rank from 2.11 on.
func TestColors(t *testing.T) {
	for _, c := range []struct {
		ranks        []int
		group, split int // split is that of 2.10
	}{
		{[]int{0, 1}, 2130503744, 1301594146},
		{[]int{2, 3}, 1121016176, 1301594018},
		{[]int{0, 2}, 1684518034, 1301594145},
		{[]int{1, 3}, 1984952676, 1301593953},
		{[]int{0, 1, 2, 3}, 2003953581, 1213413532},
		{[]int{0, 1, 2, 3, 4, 5, 6, 7}, 1266629538, 974727815},
	} {
		require.Equal(t, c.group, GroupColor(c.ranks), fmt.Sprint(c.ranks))
		for minor, want := range map[int]int{8: c.group, 9: c.split, 10: c.split, 11: c.ranks[0], 12: c.ranks[0]} {
			require.Equal(t, want, SplitColor(backend.Version{Major: 2, Minor: minor}, c.ranks), fmt.Sprint(c.ranks, " by 2.", minor))
		}
	}
}
