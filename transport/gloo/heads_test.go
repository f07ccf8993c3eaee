package gloo

import (
	"bytes"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestHeadsWithinPayload has a rank announce a message and post a receive while its peer takes a long payload slowly. Their heads follow
// the payload.
func TestHeadsWithinPayload(t *testing.T) {
	for name, change := range ways(t) {
		t.Run(name, func(t *testing.T) {
			if name == "ipv6" {
				requireIPv6(t)
			}
			const long, short = 32 << 20, 1000
			meshes := open(t, 2, change)
			var first, second Send
			var into, back Receive
			payload := pattern(0, long)
			require.NoError(t, meshes[1].Post(&into, 0, 5, long))
			require.NoError(t, meshes[1].Flush())
			require.NoError(t, meshes[0].Announce(&first, 1, 5, long))
			require.NoError(t, drive(meshes[0], func() (bool, error) {
				ok, err := meshes[0].Write(&first, payload)
				return !ok && meshes[0].pairs[1].partial > 0, err
			}))
			require.NoError(t, meshes[0].Announce(&second, 1, 6, short))
			require.NoError(t, meshes[0].Post(&back, 1, 7, short))
			errs := make([]error, 2)
			var all sync.WaitGroup
			all.Go(func() {
				got := make([]byte, short)
				errs[0] = errors.Join(drive(meshes[0], func() (bool, error) { return meshes[0].Write(&first, payload) }),
					drive(meshes[0], func() (bool, error) { return meshes[0].Write(&second, payload[:short]) }), take(meshes[0], &back, got, true))
				require.Equal(t, pattern(1, short), got)
			})
			all.Go(func() {
				got := make([]byte, long)
				errs[1] = take(meshes[1], &into, got, true)
				require.True(t, bytes.Equal(payload, got))
				_, err := get(meshes[1], 0, 6, got[:short], true)
				errs[1] = errors.Join(errs[1], err, put(meshes[1], 0, 7, pattern(1, short)))
				require.Equal(t, payload[:short], got[:short])
			})
			all.Wait()
			require.NoError(t, errors.Join(errs...))
		})
	}
}
