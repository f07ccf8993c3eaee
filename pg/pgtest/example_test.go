package pgtest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/pgtest"
	"github.com/colligo-go/colligo/transport/sim"
)

// In a module of one's own this is the body of a test function, whose t it gets.
func ExampleRun() {
	test := func(t *testing.T) {
		pgtest.Run(t, 4, func(t *testing.T, g *pg.Group) {
			x := []float32{float32(g.Rank())}
			require.NoError(t, g.AllReduce(t.Context(), colligo.Of(x), colligo.Sum))
			require.Equal(t, []float32{6}, x)
		})
	}
	examples["Run"] = test // so that TestExamples runs it
	// Output:
}

// Links take up to a second, rank 1 dies, and the other ranks get an error. Time is virtual, so the test takes no time.
func ExampleRunWith() {
	test := func(t *testing.T) {
		var net *sim.Net
		o := pgtest.Options{Sim: sim.Config{MaxDelay: time.Second}, Net: func(n *sim.Net) { net = n }}
		pgtest.RunWith(t, 3, o, func(t *testing.T, g *pg.Group) {
			if g.Rank() == 1 {
				net.Kill(1)
				return
			}
			require.ErrorIs(t, g.Barrier(t.Context()), colligo.ErrPeerLost)
		})
	}
	examples["RunWith"] = test
	// Output:
}

// examples are the bodies of the examples, which have no t of their own.
var examples = map[string]func(*testing.T){}

func TestExamples(t *testing.T) {
	ExampleRun()
	ExampleRunWith()
	require.Len(t, examples, 2)
	for name, test := range examples {
		t.Run(name, test)
	}
}
