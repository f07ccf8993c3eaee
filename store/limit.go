package store

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// Limit is the timeout of a store: the part that Hash, tcpstore and filestore share. Its zero value waits for ever.
type Limit struct{ ns atomic.Int64 }

// Set sets the timeout. Zero means for ever; a negative duration panics.
func (l *Limit) Set(d time.Duration) {
	if d < 0 {
		panic(fmt.Sprintf("store: negative timeout %v", d))
	}
	l.ns.Store(int64(d))
}

// Get returns the timeout.
func (l *Limit) Get() time.Duration { return time.Duration(l.ns.Load()) }

// Bound is one call's context, bounded by its own deadline or else by the store's timeout.
type Bound struct {
	context.Context
	after time.Duration
	stop  context.CancelFunc
}

// Start bounds a call. Stop must be called when the call ends.
func (l *Limit) Start(ctx context.Context) *Bound {
	if end, ok := ctx.Deadline(); ok {
		return &Bound{ctx, time.Until(end).Round(time.Millisecond), func() {}}
	}
	d := l.Get()
	if d == 0 {
		return &Bound{ctx, 0, func() {}}
	}
	bounded, stop := context.WithTimeout(ctx, d)
	return &Bound{bounded, d, stop}
}

// Stop frees the call's timer.
func (b *Bound) Stop() { b.stop() }

// Over reports whether the call's time is up or its context has ended. A socket may notice a deadline a moment before
// the context does.
func (b *Bound) Over() bool {
	end, limited := b.Deadline()
	return b.Err() != nil || limited && !time.Now().Before(end)
}

// Fail returns the error of a call that is over while it waited for keys: the reason of the cancellation, or else a
// *TimeoutError.
func (b *Bound) Fail(keys ...string) error {
	if err := b.Err(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return context.Cause(b)
	}
	return &TimeoutError{After: max(b.after, 0), Keys: keys}
}
