package stream

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSpin(t *testing.T) {
	var s Spin
	s.Allow(1 << 20)
	require.False(t, s.Again(1), "more ranks than cores")

	s.Allow(1)
	require.True(t, s.Again(1))
	time.Sleep(2 * spinFor)
	require.False(t, s.Again(2), "the pause is long")
	s.woke = s.began.Add(10 * spinWorth)
	require.False(t, s.Again(1), "the last pause was long")
	s.woke = s.began.Add(spinWorth / 2)
	require.True(t, s.Again(1), "the last pause was short")
	require.True(t, s.Again(1), "the last pause ended in the spin")
}
