//go:build !unix

package stream

// New returns a waiter without streams.
func New(bool) (Waiter, error) { return newBell(), nil }
