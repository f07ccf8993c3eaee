package shm

import "errors"

// ErrUnsupported is wrapped by Open where the operating system has no sealed memory files and futexes.
var ErrUnsupported = errors.New("shared memory transport needs linux")
