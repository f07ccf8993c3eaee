package op

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestMoment compares moments with times. In a bubble of package synctest the time is years before the process began.
func TestMoment(t *testing.T) {
	check := func(t *testing.T) {
		before := time.Now()
		m := Now()
		require.NotZero(t, m)
		require.False(t, m.Time().Before(before))
		require.False(t, m.Time().After(time.Now()))
		require.Equal(t, m, MomentOf(m.Time()))
		require.Equal(t, m+Moment(time.Hour), MomentOf(m.Time().Add(time.Hour)))
	}
	t.Run("process", check)
	t.Run("bubble", func(t *testing.T) { synctest.Test(t, check) })
}

// TestClock has the limit of an operation count from some time after its call, and a context's deadline take its place.
func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &Op{Called: Now(), Limit: time.Minute}
		require.Zero(t, o.Clocked())
		require.Zero(t, o.Deadline())
		time.Sleep(time.Second)
		o.Started(Now())
		from := time.Now()
		o.Clock(from)
		time.Sleep(time.Second)
		o.Clock(time.Now()) // it counts already
		require.True(t, o.Clocked().Equal(from))
		require.True(t, o.Deadline().Equal(from.Add(time.Minute)))
		called, began := o.Times()
		require.True(t, called.Equal(from.Add(-time.Second)))
		require.True(t, began.Equal(from))
		require.Equal(t, 2*time.Second, o.Ended())
		require.Equal(t, time.Second, o.Took())

		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		due, _ := ctx.Deadline()
		o = &Op{Called: Now(), Limit: time.Minute, Ctx: ctx}
		time.Sleep(time.Second)
		o.Clock(time.Now())
		require.True(t, o.Deadline().Equal(due))
	})
}
