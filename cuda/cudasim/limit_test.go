package cudasim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestLimit names a test whose machine takes no steps, and one that runs too long.
func TestLimit(t *testing.T) {
	s := New(Config{})
	defer s.Close()
	began, said := time.Now(), ""
	l := &limit{sim: s, name: "TestOfOthers", began: began, moved: began, exceeded: func(report string) { said = report }}
	l.look(began.Add(longestSilence - time.Second))
	require.Empty(t, said)
	s.steps++
	l.look(began.Add(longestSilence + time.Second))
	require.Empty(t, said, "it has moved")
	l.look(began.Add(2*longestSilence + time.Second))
	require.Contains(t, said, "TestOfOthers hangs: it has run for 1m41s, and its simulated machine has taken no step for 50s\n")
	require.Contains(t, said, "no call waits")
	s.steps, said = s.steps+1, ""
	l.look(began.Add(longestTest))
	require.Contains(t, said, "TestOfOthers hangs: it has run for 5m0s")
	Limit(t, s)
}
