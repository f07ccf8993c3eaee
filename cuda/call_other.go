//go:build !(linux || windows) || !(amd64 || arm64)

package cuda

import "fmt"

// callC cannot be reached: no library is found on this system.
func callC(address uintptr, _ []uintptr) Result {
	panic(fmt.Sprintf("cuda: call of %#x on a system without CUDA", address))
}

// search finds nothing: there is no driver for this system.
func search() (*library, error) { return nil, ErrUnsupported }
