//go:build !linux

package shm

import (
	"context"
	"fmt"
	"runtime"

	"github.com/colligo-go/colligo/transport"
)

// Open fails on this system with an error that wraps ErrUnsupported.
func Open(context.Context, *transport.Config) (transport.Mesh, error) {
	return nil, fmt.Errorf("shm: %w, this is %s", ErrUnsupported, runtime.GOOS)
}

// HostID returns "": no other rank can share memory with this one.
func HostID() string { return "" }
