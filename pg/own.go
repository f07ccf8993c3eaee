package pg

import "context"

// ownContext marks the calls under a context as those of pg itself, which are not recorded and not counted.
type ownContext struct{ context.Context }

type ownKey struct{}

// Value tells that the call is pg's own.
func (c *ownContext) Value(key any) any {
	if key == (ownKey{}) {
		return c
	}
	return c.Context.Value(key)
}

func asOwn(ctx context.Context) context.Context { return &ownContext{ctx} }

func isOwn(ctx context.Context) bool { return ctx != nil && ctx.Value(ownKey{}) != nil }
