package pg_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/pgtest"
	"github.com/colligo-go/colligo/transport/sim"
)

// TestUnformedGroupEnds has a rank die while the group forms: Init returns when everything has ended that its failure began.
func TestUnformedGroupEnds(t *testing.T) {
	var mu sync.Mutex
	began, ended, failed := 0, 0, 0
	o := pgtest.Options{
		Net: func(n *sim.Net) { n.KillAfter(1, 1) },
		Config: func(_ int, c *pg.Config) {
			c.Watchdog.OnError = pg.TearDown
			c.Watchdog.Exit = func(int) {
				mu.Lock()
				began++
				mu.Unlock()
				time.Sleep(time.Second) // virtual
				mu.Lock()
				ended++
				mu.Unlock()
			}
		},
		InitError: func(t *testing.T, _ int, err error) {
			mu.Lock()
			defer mu.Unlock()
			failed++
		},
	}
	pgtest.RunWith(t, 3, o, func(t *testing.T, g *pg.Group) {})
	require.NotZero(t, failed)
	require.NotZero(t, began)
	require.Equal(t, began, ended)
}
