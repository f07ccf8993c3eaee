// Package ptx holds the GPU kernels as compressed PTX: kernels that reduce, scale and copy elements, and whole collectives.
//
// They are C++ in ../_gen/cuda, which go generate compiles without CUDA. ReduceModule, UnaryModule and MoveModule find a
// Module. entries.go lists the entry points, and args.go has the arguments that each of them takes.
//
// The kernels hold to the invariants of package kernels, and to these:
//
//  1. Sources are folded in rank order. Sums and products of float16, bfloat16 and float8 are rounded once, at the end.
//     kernels.Fold computes the same on the CPU. All ranks get the same bits.
//  2. Every loop that waits for a peer ends when the host says so in the abort words. No loop's bound is read from memory
//     that a peer writes.
//  3. A collective keeps what it must remember between launches (operation numbers, tile counters) in device memory. So
//     a captured graph may be replayed any number of times. Launches of one group run in one order on all ranks, one
//     after another.
//
// The package never talks to a driver. The packages that launch kernels load the modules.
package ptx
