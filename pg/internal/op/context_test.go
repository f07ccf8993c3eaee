package op

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// asked is a context that counts questions. It cannot be compared.
type asked struct {
	context.Context
	count *int
	_     []int
}

func (c asked) Value(key any) any {
	*c.count++
	return c.Context.Value(key)
}

// TestWith gives one operation the contexts of several calls. It asks a context once, and takes none for another. One of the group's own
// calls is asked each time.
func TestWith(t *testing.T) {
	late, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	var count int
	first, second := context.Context(asked{t.Context(), &count, nil}), context.Context(asked{late, &count, nil})
	own := &Own{late}
	var s Spares
	call := func(ctx context.Context) *Op {
		o := s.Take(2, 0)
		o.Limit = time.Minute
		o.With(ctx)
		require.Equal(t, ctx == nil, o.Ctx == nil)
		return o
	}
	for _, c := range []struct {
		ctx   context.Context
		asked int // so far
		own   bool
		limit time.Duration
	}{
		{first, 1, false, time.Minute},
		{first, 1, false, time.Minute},
		{second, 2, false, time.Hour},
		{second, 2, false, time.Hour},
		{nil, 2, false, time.Minute},
		{own, 2, true, time.Hour},
		{own, 2, true, time.Hour},
		{second, 3, false, time.Hour},
		{first, 4, false, time.Minute},
		{context.Background(), 4, false, time.Minute},
		{own, 4, true, time.Hour},
		{context.Background(), 4, false, time.Minute},
	} {
		o := call(c.ctx)
		require.Equal(t, c.own, o.Own)
		require.InDelta(t, c.limit, o.Within(), float64(time.Minute/2))
		require.Equal(t, c.asked, count)
		s.Put(o)
	}
	for _, limit := range []time.Duration{time.Hour, time.Minute} {
		o := call(own)
		require.True(t, o.Own)
		require.InDelta(t, limit, o.Within(), float64(time.Minute/2))
		s.Put(o)
		own.Context = first // a caller's context that is another in the next call
	}
	own.Context = late
	o := &Op{Limit: time.Minute} // which is not used again
	o.With(own)
	require.True(t, o.Own)
	require.InDelta(t, time.Hour, o.Within(), float64(time.Minute/2))
}
