package pg

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/pg/internal/control"
	"github.com/colligo-go/colligo/pg/internal/op"
)

// TestEntered remembers the calls of a rank by their places.
func TestEntered(t *testing.T) {
	var at op.Seq
	var p control.Progress
	for range 100 {
		at = at.Next(at%3 != 0)
		call := (&op.Op{Coll: 9, Seq: at}).Identity(7)
		p.Enter(call)
		got, ok := p.At(uint64(at))
		require.True(t, ok)
		require.Equal(t, call, got)
	}
}
