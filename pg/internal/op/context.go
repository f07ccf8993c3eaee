package op

import (
	"context"
	"time"
	"unsafe"
)

// Own is a context that marks the calls under it as calls of package pg itself. These calls have no number, and are neither recorded
// nor counted.
type Own struct{ context.Context }

type ownKey struct{}

// Value tells that the call is pg's own.
func (c *Own) Value(key any) any {
	if key == (ownKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// IsOwn reports whether calls under a context are pg's own.
func IsOwn(ctx context.Context) bool { return ctx != nil && ctx.Value(ownKey{}) != nil }

// known is what the context of the last call has told. Asking a context goes through every context that it was made of, and most calls
// come with the context of the call before. A context must go on to tell the same, and it stays alive until a call comes with another.
type known struct {
	ctx     context.Context
	bounded bool // it has a deadline
}

// With gives an operation the context of its call.
func (o *Op) With(ctx context.Context) {
	o.Ctx = ctx
	if k := o.known; k == nil || !same(k.ctx, ctx) {
		o.learn(ctx)
	}
}

// learn asks a context whether the call is the group's own, and whether it has a deadline. A context of the group's own calls is not kept:
// it is used again with other contexts in it.
func (o *Op) learn(ctx context.Context) {
	o.Own = IsOwn(ctx)
	k := o.known
	if k == nil {
		return
	}
	*k = known{}
	if !o.Own && ctx != nil {
		k.ctx = ctx
		_, k.bounded = ctx.Deadline()
	}
}

// Within is how long the operation may take that is called now: until its context's deadline, where there is one.
func (o *Op) Within() time.Duration {
	if k := o.known; o.Ctx == nil || k != nil && k.ctx != nil && !k.bounded {
		return o.Limit
	}
	if d, ok := o.Ctx.Deadline(); ok {
		return time.Until(d).Round(time.Millisecond)
	}
	return o.Limit
}

// same reports whether two contexts are one. It compares the words of the interfaces, for a program may have a context that cannot be
// compared.
func same(a, b context.Context) bool {
	type words [2]uintptr
	return *(*words)(unsafe.Pointer(&a)) == *(*words)(unsafe.Pointer(&b))
}
