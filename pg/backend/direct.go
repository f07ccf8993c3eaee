package backend

import (
	"context"
	"errors"
)

// ErrApart is wrapped by the error of an opener that was to be direct, where the ranks do not reach each other's memory.
var ErrApart = errors.New("the ranks do not all reach each other's memory")

type directKey struct{}

// Direct has the opener of Native take no other way between devices that do not reach each other. Instead it fails with ErrApart, on all
// ranks, and the group goes on.
func Direct(ctx context.Context) context.Context { return context.WithValue(ctx, directKey{}, true) }

// IsDirect reports whether a context is one of Direct.
func IsDirect(ctx context.Context) bool { return ctx.Value(directKey{}) != nil }

type stepsKey struct{}

// ForSteps has the opener of Native make a backend for steps of another backend's operations. It is direct, and sets no limit: the other
// backend's watchdog does, which stops its own steps before it aborts this one.
func ForSteps(ctx context.Context) context.Context {
	return context.WithValue(Direct(ctx), stepsKey{}, true)
}

// IsForSteps reports whether a context is one of ForSteps.
func IsForSteps(ctx context.Context) bool { return ctx.Value(stepsKey{}) != nil }

// Communicating is a Backend with communicators of a library, which dumps of the flight recorder describe.
type Communicating interface {
	Backend
	// Communicators returns names and values for each communicator, by a name that no other communicator of the rank has. It may be called
	// at any time, and waits for nothing. It returns none at moments at which it would have to.
	Communicators() map[string]map[string]string
}

// Shared is a Backend that has calls carried by several others, or in several ways of its own.
type Shared interface {
	Backend
	// Carried returns how many collectives each of them was given, by its name, nil where there is one for all. It may be called at any
	// time.
	Carried() map[string]uint64
}
