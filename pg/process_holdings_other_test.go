//go:build !linux

package pg_test

// held would count what a process holds.
type held struct{}

func holdings() held { return held{} }

func (held) beyond(held) []string { return nil }
