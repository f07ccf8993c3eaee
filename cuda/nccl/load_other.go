//go:build !linux || !(amd64 || arm64)

package nccl

import (
	"fmt"
	"runtime"
)

// PathVariable names the library in the environment.
const PathVariable = "COLLIGO_NCCL_PATH"

// intraNodeVariable asks for Options.IntraNode in the environment, where there is NCCL.
func intraNodeVariable() bool { return false }

// hostVariable is what tells NCCL's ranks of one machine that they are on several hosts.
func hostVariable() string { return "" }

// Open fails: NVIDIA makes no NCCL for this system.
func Open(string) (*Library, error) {
	return nil, fmt.Errorf("nccl: %w for %s on %s", ErrNotFound, runtime.GOOS, runtime.GOARCH)
}
