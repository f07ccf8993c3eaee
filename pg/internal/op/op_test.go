package op

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// TestSize holds invariant 1.
func TestSize(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(Op{}), uintptr(256))
}
