//go:build linux && (!(amd64 || arm64) || noasm)

package shm

// pause does nothing where the instruction is not known.
func pause() {}
