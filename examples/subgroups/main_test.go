package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/pgtest"
)

// TestRun forms a grid of two rows and two columns.
func TestRun(t *testing.T) {
	want := []string{
		"rank 0: row [0 1] has [1], column [0 2] has [1]\n",
		"rank 1: row [0 1] has [1], column [1 3] has [2]\n",
		"rank 2: row [2 3] has [5], column [0 2] has [1]\n",
		"rank 3: row [2 3] has [5], column [1 3] has [2]\n",
	}
	pgtest.Run(t, 4, func(t *testing.T, g *pg.Group) {
		var out bytes.Buffer
		require.NoError(t, run(t.Context(), g, &out))
		require.Equal(t, want[g.Rank()], out.String())
	})
}
