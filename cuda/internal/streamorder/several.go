package streamorder

import (
	"context"
	"time"

	"github.com/colligo-go/colligo/pg/backend"
)

// Several is an operation in parts.
type Several []backend.Pending

// One returns the parts as one operation, nil if there is none.
func (s Several) One() backend.Pending {
	switch len(s) {
	case 0:
		return nil
	case 1:
		return s[0]
	}
	return s
}

// Wait implements backend.Pending.
func (s Several) Wait(ctx context.Context) error {
	return s.each(func(p backend.Pending) error { return p.Wait(ctx) })
}

// Synchronize implements backend.Pending.
func (s Several) Synchronize(ctx context.Context) error {
	return s.each(func(p backend.Pending) error { return p.Synchronize(ctx) })
}

func (s Several) each(f func(backend.Pending) error) error {
	for _, p := range s {
		if err := f(p); err != nil {
			return err
		}
	}
	return nil
}

// Done implements backend.Pending.
func (s Several) Done() bool {
	for _, p := range s {
		if !p.Done() {
			return false
		}
	}
	return true
}

// Begun implements backend.Timed.
func (s Several) Begun() bool {
	t, ok := s[0].(backend.Timed)
	return ok && t.Begun()
}

// Took implements backend.Timed. It is the time of all parts together.
func (s Several) Took() (sum time.Duration, known bool) {
	for _, p := range s {
		t, ok := p.(backend.Timed)
		if !ok {
			return 0, false
		}
		d, known := t.Took()
		if !known {
			return 0, false
		}
		sum += d
	}
	return sum, true
}
