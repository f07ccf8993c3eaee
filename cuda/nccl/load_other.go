//go:build !linux || !(amd64 || arm64)

package nccl

import (
	"fmt"
	"runtime"
)

// Open fails: NVIDIA makes no NCCL for this system.
func Open(string) (*Library, error) {
	return nil, fmt.Errorf("nccl: %w for %s on %s", ErrNotFound, runtime.GOOS, runtime.GOARCH)
}

// call cannot be reached: Open gives no library.
func (l *Library) call(s symbol, _ ...uintptr) uintptr {
	panic("nccl: call of " + names[s] + " without a library")
}
