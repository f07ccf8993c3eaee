//go:build noasm || (!amd64 && !arm64)

package kernels

// instructionSets is empty: the Go loops do everything.
func instructionSets() []instructionSet { return nil }
