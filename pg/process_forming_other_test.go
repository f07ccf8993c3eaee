//go:build !linux

package pg_test

import (
	"context"
	"errors"

	"github.com/colligo-go/colligo/transport"
)

// openWithFew fails: the tests that bound a process's files run on Linux alone, where a process can see how many it has.
func openWithFew(string, int) func(context.Context, *transport.Config) (transport.Mesh, error) {
	return func(context.Context, *transport.Config) (transport.Mesh, error) {
		return nil, errors.New("this system does not tell how many files are open")
	}
}
