package main

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/pgtest"
)

// TestRun has three ranks find the mean of 0, 1 and 2 in spite of the noise, each the same.
func TestRun(t *testing.T) {
	pgtest.Run(t, 3, func(t *testing.T, g *pg.Group) {
		var out bytes.Buffer
		require.NoError(t, run(t.Context(), g, &out))
		require.Equal(t, fmt.Sprintf("rank %d: weight 1.0 after %d buckets\n", g.Rank(), steps), out.String())
	})
}
