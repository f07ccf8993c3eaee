package filestore

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/store"
	"github.com/colligo-go/colligo/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

func open(t testing.TB, path string, size int) *Store {
	t.Helper()
	s, err := Open(t.Context(), path, Options{Size: size})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func TestConformance(t *testing.T) {
	t.Parallel() // the suite waits more than it works
	storetest.Run(t, func(t *testing.T) store.Store { return open(t, filepath.Join(t.TempDir(), "store"), 1) })
}

func TestConformancePrefix(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) store.Store {
		return store.NewPrefix("default_pg", open(t, filepath.Join(t.TempDir(), "store"), 0))
	})
}
