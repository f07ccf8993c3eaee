//go:build !race && (amd64 || arm64)

package cuda

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// The race detector makes pools forget, so it sees allocations here that there are not.
func TestHotCallsAllocateNothing(t *testing.T) {
	thread := Thread{Device: &Device{driver: yielding(t)}}
	args := unsafe.Pointer(new(int64))
	require.Zero(t, testing.AllocsPerRun(1000, func() { hot(t, thread, args) }))
}
