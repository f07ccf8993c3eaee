package torch

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestColors holds colors to those that PyTorch 2.11 computes.
func TestColors(t *testing.T) {
	for _, c := range []struct {
		ranks        []int
		group, split int
	}{
		{[]int{0, 1}, 2130503744, 1301594146},
		{[]int{2, 3}, 1121016176, 1301594018},
		{[]int{0, 2}, 1684518034, 1301594145},
		{[]int{1, 3}, 1984952676, 1301593953},
		{[]int{0, 1, 2, 3}, 2003953581, 1213413532},
		{[]int{0, 1, 2, 3, 4, 5, 6, 7}, 1266629538, 974727815},
	} {
		require.Equal(t, c.group, GroupColor(c.ranks), fmt.Sprint(c.ranks))
		require.Equal(t, c.split, SplitColor(c.ranks), fmt.Sprint(c.ranks))
	}
}
