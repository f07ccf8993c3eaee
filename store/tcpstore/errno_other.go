//go:build !windows

package tcpstore

import (
	"errors"
	"syscall"
)

// refusedOrReset reports whether nobody listens at the address, or nobody does any more.
func refusedOrReset(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
