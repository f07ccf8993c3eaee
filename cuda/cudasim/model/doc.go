// Package model has model kernels: Go functions that stand for the GPU kernels of package ptx on a simulated driver. A model kernel does
// the same stores, flags and waits as its kernel, block by block. Reductions are those of the CPU's kernels, so sums of 16-bit and
// 8-bit floats round at each step, not once at the end.
//
// Invariant: a model kernel takes the same arguments as its kernel, and uses the same memory in the same protocol. It looks at the abort
// flag in every wait. It waits for the work before it on its stream if its kernel does. The threads of a block act one after another.
//
// The package serves tests. It starts no goroutine and keeps no state.
package model
