// Package kernels reduces, scales and copies elements in CPU memory.
//
// Lookup gives the Kernel of an element type and a kind of reduction. A Kernel works on bytes in the machine's order. So
// arriving bytes can be reduced straight from a link's buffer into place. All kernels stand in one table, which buildTable
// (table.go) fills once with Go loops. Vector code belongs at its end. There, replace the loops of the entries that the
// machine's features allow. Set their align to 1 if they take any address. Nothing else dispatches.
//
// Invariants:
//
//  1. Every loop's result depends on the operands' bits only: not on length, alignment, or which of dst, a, b are the
//     same memory.
//  2. Integers wrap. Float16, bfloat16 and float8 are computed in float32 and rounded once per operation to the nearest,
//     ties to even. Complex elements are pairs of reals.
//  3. a op b and b op a are the same bits, but for the sum and product of two NaNs, where either payload may survive.
//     Min and max hold -0 below +0 and return one quiet NaN, positive and without payload, if either operand is NaN.
//  4. A bool byte that is not 0 counts as 1; results are 0 or 1.
//  5. Only dst is written, and only its length.
//
// The package never starts a goroutine and never waits. Kernels take memory only for operands that are not aligned.
package kernels
