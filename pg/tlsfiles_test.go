package pg

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTLSFilesMisuse names the variable at fault. That the files work, examples/secure shows with real processes.
func TestTLSFilesMisuse(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none.pem")
	for says, vars := range map[string]map[string]string{
		"TLS needs all of": {"COLLIGO_TLS_CERT": none},
		"COLLIGO_TLS_CERT and COLLIGO_TLS_KEY: open ":   {"COLLIGO_TLS_CERT": none, "COLLIGO_TLS_KEY": none, "COLLIGO_TLS_CA": none},
		`COLLIGO_TRANSPORT is "udp": want auto, shm or`: {"COLLIGO_TRANSPORT": "udp"},
	} {
		var c Config
		require.ErrorContains(t, c.settle(from(vars)), says)
	}
	var f tlsFiles
	config, err := f.load()
	require.NoError(t, err)
	require.Nil(t, config)
}
