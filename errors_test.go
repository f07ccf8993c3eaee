package colligo_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
)

func TestOpError(t *testing.T) {
	cause := fmt.Errorf("read: %w", colligo.ErrPeerLost)
	full := &colligo.OpError{Group: "dp", Op: "all_reduce", Seq: 17, What: "float32 sum, 4 MiB", Rank: 0, Peer: 3, Lane: 1,
		Step: 5, Second: true, Err: cause}
	require.EqualError(t, full,
		"all_reduce #17 (float32 sum, 4 MiB): read: peer lost [rank 0 of group dp, peer 3, lane 1, step 5, a consequence]")
	require.ErrorIs(t, full, colligo.ErrPeerLost)
	bare := &colligo.OpError{Op: "barrier", Rank: 2, Peer: colligo.NoRank, Lane: colligo.NoRank, Step: colligo.NoRank,
		Err: colligo.ErrTimeout}
	require.EqualError(t, bare, "barrier: timeout [rank 2]")
}

// TestOpErrorNamesItselfOnce has a peer report the error of the same operation, and of another.
func TestOpErrorNamesItselfOnce(t *testing.T) {
	e := &colligo.OpError{Op: "all_reduce", Seq: 3, What: "float32 sum, 4 B", Rank: 1, Peer: colligo.NoRank, Lane: colligo.NoRank, Step: colligo.NoRank, Second: true}
	e.Err = errors.New("rank 0 reported: all_reduce #3 (float32 sum, 4 B): rank 2: peer lost [rank 0]")
	require.Equal(t, "all_reduce #3 (float32 sum, 4 B): rank 0 reported: rank 2: peer lost [rank 0] [rank 1, a consequence]", e.Error())
	e.Err = errors.New("rank 0 reported: all_reduce #2 (float32 sum, 4 B): rank 2: peer lost [rank 0]")
	require.Contains(t, e.Error(), "all_reduce #3 (float32 sum, 4 B): rank 0 reported: all_reduce #2 (float32 sum, 4 B): rank 2")
}

func TestFormatBytes(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 12: "12 B", 1023: "1023 B", 1024: "1 KiB", 1536: "1.5 KiB", 4 << 20: "4 MiB",
		1<<20 - 1: "1.0 MiB", 5<<30 + 1<<29: "5.5 GiB", 1<<63 - 1: "8 EiB"} {
		require.Equal(t, want, colligo.FormatBytes(n))
	}
}
