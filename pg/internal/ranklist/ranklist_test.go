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
