//go:build !noasm

package kernels

// instructionSets is NEON, which every arm64 has.
func instructionSets() []instructionSet { return []instructionSet{{"neon", 16, neonLoops}} }
