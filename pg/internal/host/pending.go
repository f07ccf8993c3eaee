package host

import (
	"context"

	"github.com/colligo-go/colligo/pg/backend"
	"github.com/colligo-go/colligo/pg/internal/op"
)

var _ backend.Pending = Pending{}

// Pending is an operation that a program waits for.
type Pending struct{ Op *op.Op }

// Wait implements backend.Pending.
func (p Pending) Wait(ctx context.Context) error { return p.Synchronize(ctx) }

// Synchronize implements backend.Pending.
func (p Pending) Synchronize(ctx context.Context) error {
	select {
	case <-p.Op.Done:
		return p.Op.Err
	default:
	}
	select {
	case <-p.Op.Done:
		return p.Op.Err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Done implements backend.Pending.
func (p Pending) Done() bool {
	select {
	case <-p.Op.Done:
		return true
	default:
		return false
	}
}
