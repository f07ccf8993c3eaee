package backend

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestVersions reads versions of PyTorch.
func TestVersions(t *testing.T) {
	for text, want := range map[string]Version{"": {2, 11}, "1.13": {1, 13}, "1.13.1": {1, 13}, "2.6.0": {2, 6}, "2.1": {2, 1}} {
		v, err := ParseVersion(text)
		require.NoError(t, err, text)
		require.Equal(t, want, v)
	}
	for _, text := range []string{"2", "x.y", "2.x", "3"} {
		_, err := ParseVersion(text)
		require.Error(t, err, text)
	}
}
