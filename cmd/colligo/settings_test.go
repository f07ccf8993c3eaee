package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSettings(t *testing.T) {
	o := command(t, "settings")
	require.Zero(t, o.code, o.stderr)
	require.Contains(t, o.stdout, "COLLIGO_BLOCKING_WAIT, TORCH_NCCL_BLOCKING_WAIT")
	o = command(t, "settings", "all")
	require.Equal(t, 2, o.code)
	require.Contains(t, o.stderr, `unexpected argument "all"`)
}
