package bootstrap

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/store"
)

// TestAttempts checks the prefix of keys in a launcher's store. PyTorch before 2.6 prefixes the number of the attempt.
func TestAttempts(t *testing.T) {
	ctx := context.Background()
	for _, c := range []struct {
		torch   *Torch
		attempt string
		key     string
	}{
		{nil, "", "k"},
		{nil, "2", "attempt_2/k"},
		{&Torch{}, "2", "/worker/attempt_2/default_pg/k"},
		{&Torch{FreshStore: true}, "2", "default_pg/k"},
	} {
		s, o := store.NewHash(), &Options{Torch: c.torch}
		require.NoError(t, o.within(o.ofAttempt(s, c.attempt)).Set(ctx, "k", nil))
		ok, err := s.Check(ctx, c.key)
		require.NoError(t, err)
		require.True(t, ok, c.key)
	}
}
