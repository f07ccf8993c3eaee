package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/pgtest"
)

// TestRun passes micro-batches through pipelines of several lengths. Each stage adds one.
func TestRun(t *testing.T) {
	for size, want := range map[int]string{
		1: "micro-batch 0: [1 2 3]\nmicro-batch 1: [11 12 13]\nmicro-batch 2: [21 22 23]\nmicro-batch 3: [31 32 33]\n",
		3: "micro-batch 0: [3 4 5]\nmicro-batch 1: [13 14 15]\nmicro-batch 2: [23 24 25]\nmicro-batch 3: [33 34 35]\n",
	} {
		pgtest.Run(t, size, func(t *testing.T, g *pg.Group) {
			var out bytes.Buffer
			require.NoError(t, run(t.Context(), g, &out))
			if g.Rank() == size-1 {
				require.Equal(t, want, out.String())
			} else {
				require.Empty(t, out.String())
			}
		})
	}
}
