//go:build unix

package filestore

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/store"
)

// TestHeldLock has another process stop with the lock. A call that waits for the lock in vain says so, and not that a key is
// missing.
func TestHeldLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	s, err := Open(t.Context(), path, Options{})
	require.NoError(t, err)
	other, err := os.Open(path)
	require.NoError(t, err)
	got, err := tryLock(other, true)
	require.NoError(t, err)
	require.True(t, got)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	err = s.Set(ctx, "k", nil)
	require.ErrorIs(t, err, store.ErrTimeout)
	require.Regexp(t, "lock is held by others: wait timeout after ([0-9]{1,3}|1000)ms, keys: /k", err.Error()) // what was left when Set began
	require.NoError(t, other.Close())
	require.NoError(t, s.Close())
}
