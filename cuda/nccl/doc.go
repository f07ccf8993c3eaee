// Package nccl binds NVIDIA's collective communication library at run time, where it is installed. It is what the bench
// compares colligo's own engine with.
//
// Invariants:
//
//  1. The library is loaded by Open, never by importing the package.
//  2. The device's context must be current on the calling thread, which the goroutine keeps (cuda.Device.Enter): the library
//     counts groups by thread. Calls enqueue on the given stream and return.
//  3. Errors carry the function, NCCL's number, its text, and the last error it has to tell.
//
// Signatures and numbers are those of nccl.h, NCCL 2.10 and newer.
package nccl
