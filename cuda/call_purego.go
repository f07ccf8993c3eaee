//go:build (linux || windows) && (amd64 || arm64)

package cuda

import "github.com/ebitengine/purego"

func callC(address uintptr, words []uintptr) Result {
	r, _, _ := purego.SyscallN(address, words...)
	return Result(r)
}
