package oplog

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestClock compares the clock with the time of day. Somebody sets that, and the clock notices it within a tenth of a second.
func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clock
		for range 10 {
			m, since1970 := c.now()
			require.True(t, m.Time().Equal(time.Now()))
			require.Equal(t, time.Now().UnixNano(), since1970)
			time.Sleep(30 * time.Millisecond)
		}
		c.ahead += int64(time.Hour) // as if the time of day had been an hour later
		time.Sleep(setting)
		_, since1970 := c.now()
		require.Equal(t, time.Now().UnixNano(), since1970)
	})
}
