// Package model runs the GPU kernels that package peer launches on a simulated driver: each entry point's model kernel in Go does
// the same stores, flags and waits, block by block. Reductions are those of the CPU's kernels, so sums of 16-bit and
// 8-bit floats round at each step, not once at the end.
//
// Invariant: a model kernel takes the same arguments, uses the same memory in the same protocol, looks at the abort flag in every
// wait, and waits for what comes before it on its stream, if the kernel of its name does. What a block's threads do is one
// thing after another.
//
// The package serves tests. It starts no goroutine and keeps no state.
package model
