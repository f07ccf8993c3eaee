package bootstrap

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestByColor groups ranks by ascending color, orders them by key and then by rank, and leaves out ranks without color.
func TestByColor(t *testing.T) {
	require.Empty(t, ByColor(nil, -1))
	require.Empty(t, ByColor([]int64{-1, 0, -1, 5}, -1))
	got := ByColor([]int64{7, 1, -1, 0, 2, 9, 7, 1, 2, 3, 7, 0}, -1)
	require.Equal(t, []List{{Ranks: []int{4, 2}}, {Ranks: []int{5, 0, 3}}}, got)
}

// TestNames counts groups, duplicates, splits and groups of the same ranks apart from one another.
func TestNames(t *testing.T) {
	f := Formation{Member: Member{Name: "0", Ranks: []int{4, 5, 6}}}
	name := func(hashed bool, ranks ...int) string {
		l := []List{{Ranks: ranks}}
		f.NameAll(l, hashed)
		require.Equal(t, len(ranks), len(l[0].Global))
		for i, r := range ranks {
			require.Equal(t, f.Ranks[r], l[0].Global[i])
		}
		return l[0].Name
	}
	for i := 1; i < 4; i++ {
		require.Equal(t, fmt.Sprintf("0/%d", i), name(false, 0, 1))
		require.Equal(t, "0/"+HashedName([]int{4, 6}, i), name(true, 0, 2))
		require.Equal(t, "0/"+HashedName([]int{5}, i), name(true, 1))
		require.Equal(t, fmt.Sprintf("0/dup%d", i), f.NameDup())
		require.Equal(t, i-1, f.CountSplit())
	}
}
