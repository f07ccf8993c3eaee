// Package parity holds colligo to what PyTorch's own tests demand of torch.distributed and its NCCL process group. Its tests
// have the names of PyTorch's, in Go's form, and do the same thing in the same situation. They run on CPU ranks over the
// simulated transport and shared memory, on simulated GPUs, and with COLLIGO_GPU set on real ones.
//
// Invariants:
//
//  1. Every test of the suite it follows has a row in rows_test.go. The row is a Go test of the same name, or the reason why there
//     is none. So have bodies of tests that the suite does not call.
//  2. A test runs on every medium on which its situation exists. File differs_test.go says why a test runs on fewer media than
//     there are. It also says where a test asserts less than the test that it follows, or something else.
//  3. ../PARITY.md is written from the rows and from the media on which a run of all tests has seen each run.
//
// There is nothing to import here.
package parity
