package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// wholeTick is how often a rank that waits for others beside the group looks whether they can still come.
const wholeTick = 100 * time.Millisecond

// WhileWhole returns a context that also ends, with that cause, when broken returns an error. It is for what waits elsewhere
// for the ranks of a group, which may fail or lose a rank meanwhile.
func WhileWhole(ctx context.Context, broken func() error) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		tick := time.NewTicker(wholeTick)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if err := broken(); err != nil {
				cancel(err)
			}
		}
	}()
	return ctx, func() { cancel(nil) }
}

// Because adds to an error what has ended the context, if the error does not tell.
func Because(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if err == nil || cause == nil || errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w: %w", cause, err)
}
