package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/store"
	"github.com/colligo-go/colligo/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

func openHash(t *testing.T) store.Store {
	h := store.NewHash()
	t.Cleanup(func() { require.NoError(t, h.Close()) })
	return h
}

func TestHash(t *testing.T) {
	t.Parallel() // the suite waits more than it works
	storetest.Run(t, openHash)
}

func TestPrefix(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) store.Store { return store.NewPrefix("default_pg", openHash(t)) })
}

func TestPrefixNested(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) store.Store {
		return store.NewPrefix("cuda/", store.NewPrefix("0/", openHash(t)))
	})
}
