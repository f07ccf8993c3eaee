package nccl

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
)

func TestOpenSaysWhatItSearched(t *testing.T) {
	_, err := Open("/nowhere/libnccl.so.2")
	require.ErrorIs(t, err, ErrNotFound)
}

// TestCodes holds the numbers against nccl.h.
func TestCodes(t *testing.T) {
	d, op, err := codes(colligo.BFloat16, colligo.KindMin)
	require.NoError(t, err)
	require.EqualValues(t, 9, d)
	require.EqualValues(t, 3, op)
	_, _, err = codes(colligo.Complex64, colligo.KindSum)
	require.ErrorContains(t, err, "no element type for complex64")
	_, _, err = codes(colligo.Float32, colligo.KindBAnd)
	require.ErrorContains(t, err, "no reduction for band")
}

func TestNamesComplete(t *testing.T) {
	for s, name := range names {
		require.NotEmpty(t, name, "symbol %d", s)
	}
}
