package tcpstore

import (
	"errors"

	"golang.org/x/sys/windows"
)

// refusedOrReset reports whether nobody listens at the address, or nobody does any more.
func refusedOrReset(err error) bool {
	return errors.Is(err, windows.WSAECONNREFUSED) || errors.Is(err, windows.WSAECONNRESET) ||
		errors.Is(err, windows.WSAECONNABORTED)
}
