package ranklist

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestText prints runs, single ranks, and the verb that goes with them.
func TestText(t *testing.T) {
	for want, ranks := range map[string][]int{
		"rank 3 has":              {3},
		"ranks 0-2, 5 have":       {0, 1, 2, 5},
		"ranks 0, 2-3 have":       {0, 2, 3},
		"ranks 1023-1024 have":    {1023, 1024},
		"ranks 1, 3, 5, 7-9 have": {1, 3, 5, 7, 8, 9},
		"ranks  have":             {},
	} {
		require.Equal(t, want, Text(ranks)+" "+Verb(ranks, "has", "have"))
	}
}

// TestBoth prints the numbers in the default group where they differ.
func TestBoth(t *testing.T) {
	global := []int{0, 1, 5, 4, 9}
	for want, ranks := range map[string][]int{
		"ranks 0-1":                        {0, 1},
		"rank 2 (global 5)":                {2},
		"ranks 0, 2-4 (global 0, 5, 4, 9)": {0, 2, 3, 4},
		"rank 7":                           {7},
	} {
		require.Equal(t, want, Both(ranks, global))
		require.Equal(t, Text(ranks), Both(ranks, nil))
	}
}
