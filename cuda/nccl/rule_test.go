package nccl

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/plan"
)

// TestFittingRules leaves out rules for other hosts, and all of them where none takes two levels.
func TestFittingRules(t *testing.T) {
	all := SocketRules()
	require.Equal(t, all, fitting(all, 4, 8, false))
	require.Nil(t, fitting(all, 5, 8, false), "more hosts")
	require.Nil(t, fitting(all, 2, 8, true), "InfiniBand")
	few := []Rule{{Coll: plan.AllReduce, MaxLocal: 2, Algorithm: TwoLevel}}
	require.Equal(t, few, fitting(few, 100, 2, true))
	require.Nil(t, fitting(few, 100, 3, true))
	for bytes, want := range map[int]string{1: Flat, 256 << 10: Flat, 256<<10 + 1: TwoLevel, 1 << 40: TwoLevel} {
		require.Equal(t, want, algorithmFor(all, bytes), bytes)
	}
	require.Equal(t, Flat, algorithmFor(nil, 1))
}
