// Package parity holds colligo to what PyTorch's own tests demand of torch.distributed and its NCCL process group. Its tests
// have the names of PyTorch's, in Go's form, and do the same thing in the same situation. They run on CPU ranks over the
// simulated transport and shared memory, on simulated GPUs, and with COLLIGO_GPU set on real ones.
//
// Invariants:
//
//  1. Every test of the suite it follows has a row in rows_test.go. The row is a Go test of the same name, here or in
//     another package, or the reason why there is none. ../PARITY.md is written from the rows and the tests' names.
//  2. A test runs on every medium on which its situation exists.
//
// There is nothing to import here.
package parity
