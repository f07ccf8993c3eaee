//go:build amd64 || arm64

package cuda

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHandlersAreMovedToTheAlternateStack(t *testing.T) {
	const sig = 50 // a real-time signal that nobody sends
	var before sigaction
	require.NoError(t, rtSigaction(sig, nil, &before))
	defer func() { require.NoError(t, rtSigaction(sig, &before, nil)) }()
	broken := before
	if broken.handler <= 1 {
		require.NoError(t, rtSigaction(23, nil, &broken)) // Go handles SIGURG
	}
	broken.flags &^= onStack
	require.NoError(t, rtSigaction(sig, &broken, nil))
	require.NoError(t, repairSignals())
	var after sigaction
	require.NoError(t, rtSigaction(sig, nil, &after))
	require.Equal(t, broken.flags|onStack, after.flags)
	require.Equal(t, broken.handler, after.handler)
	require.NoError(t, repairSignals())
}
