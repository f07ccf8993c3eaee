package pg_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/pgtest"
)

// TestZeroCopyGivenUp has rank 0 give up an operation whose payloads wait in its memory, and write to that memory. It runs over shared
// memory, where alone a peer can read it. Rank 1, which comes too late, gets an error and none of the bytes that were written since.
func TestZeroCopyGivenUp(t *testing.T) {
	needs(t, "shm")
	const n = 200_000
	over := make(chan struct{})
	o := pgtest.Options{Transport: "shm", Config: func(_ int, c *pg.Config) {
		c.Algo, c.Timeout = map[string]string{"all_to_all": "rotation_zero_copy"}, 300*time.Millisecond
	}}
	pgtest.RunWith(t, 2, o, func(t *testing.T, g *pg.Group) {
		in, out := make([]float32, 2*n), make([]float32, 2*n)
		if g.Rank() == 1 {
			<-over
		}
		err := g.AllToAllSingle(t.Context(), colligo.Of(out), colligo.Of(in), nil, nil)
		require.Error(t, err)
		if g.Rank() == 0 {
			require.ErrorIs(t, err, colligo.ErrTimeout)
			for i := range in {
				in[i] = 1
			}
			close(over)
			return
		}
		require.Equal(t, make([]float32, n), out[:n])
	})
}
