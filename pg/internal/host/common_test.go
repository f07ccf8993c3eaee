package host

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/internal/op"
	"github.com/colligo-go/colligo/plan"
	"github.com/colligo-go/colligo/transport"
)

// TestCommon holds op.Common to Describe: what one tells apart the other does, too.
func TestCommon(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	random := func() *transport.Call {
		return &transport.Call{Group: rng.Uint32(), Coll: uint8(rng.IntN(int(plan.Barrier) + 1)), DType: uint8(rng.IntN(2)) + uint8(colligo.Float32),
			Op: uint8(rng.IntN(2)), Count: uint64(rng.IntN(2)), Root: int32(rng.IntN(2)), Seq: 1}
	}
	equal := 0
	for range 20_000 {
		a, b := random(), random()
		kindA, countA := op.Common(a)
		kindB, countB := op.Common(b)
		same := kindA == kindB && countA == countB
		require.Equal(t, Describe(*a) == Describe(*b), same, "%+v and %+v", a, b)
		if same {
			equal++
		}
	}
	require.Greater(t, equal, 100)
}
