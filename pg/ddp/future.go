package ddp

import (
	"context"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
)

// Future is the result of a hook: a tensor that will be there. c10d: torch.futures.Future, as hooks use it.
type Future struct {
	of     *Future                                       // that this one is chained to
	work   *pg.Work                                      // that has the value when it is over; nil if none has
	before func(context.Context) (colligo.Tensor, error) // nil once it has run
	value  colligo.Tensor
	err    error
}

// start returns the future that a chain begins with.
func (f *Future) start() *Future {
	for f.of != nil {
		f = f.of
	}
	return f
}

// Ready returns a future whose value is there.
func Ready(t colligo.Tensor) *Future { return &Future{value: t} }

// After returns the future of a work's tensor.
func After(w *pg.Work, t colligo.Tensor) *Future {
	return &Future{work: w, value: t}
}

// Then returns a future of the value that next makes of this one's. The function runs when somebody waits for it, at most
// once, and not at all after an error, which passes on.
func (f *Future) Then(next func(context.Context, colligo.Tensor) (colligo.Tensor, error)) *Future {
	return &Future{of: f, before: func(ctx context.Context) (colligo.Tensor, error) {
		t, err := f.Wait(ctx)
		if err != nil {
			return t, err
		}
		return next(ctx, t)
	}}
}

// Wait returns the value. For tensors on a device it is there for what the context's stream does next.
func (f *Future) Wait(ctx context.Context) (colligo.Tensor, error) {
	if f.work != nil { // which can be waited for again where the context ends before it
		return f.value, f.work.Wait(ctx)
	}
	if before := f.before; before != nil {
		f.before = nil
		f.value, f.err = before(ctx)
	}
	return f.value, f.err
}
