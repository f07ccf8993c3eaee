package tcp

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/transport"
)

func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(list)
}

// TestDescriptors opens and closes groups, some of which do not form, and counts descriptors.
func TestDescriptors(t *testing.T) {
	certificate := testTLS(t)
	openAll(t, time.Second, group(1)...) // the runtime's poller takes its own
	before := descriptors(t)
	for _, change := range []func(*transport.Config){
		func(*transport.Config) {},
		func(c *transport.Config) { c.TLS = certificate },
		func(c *transport.Config) { c.Size = 4 },
		func(c *transport.Config) { c.Secret = []byte{byte(c.Rank)} },
	} {
		configs := group(3)
		for _, c := range configs {
			change(c)
		}
		meshes, _ := openAll(t, 300*time.Millisecond, configs...)
		for _, m := range meshes {
			if m != nil {
				go m.Close()
			}
		}
		for _, m := range meshes {
			if m != nil {
				m.Close()
			}
		}
		require.Equal(t, before, descriptors(t))
	}
}
