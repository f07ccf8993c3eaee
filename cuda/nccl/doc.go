// Package nccl binds NVIDIA's collective communication library at run time, where it is installed, and is a backend of package
// pg by the name "nccl". A program gets the backend by importing the package and naming it in pg.Config.Backend, such as
// "cuda:nccl".
//
// A Table has the library's functions as they are; Library and Comm are the same with Go's types, errors and version gates.
// The backend is a carrier of streams: stream order, throttle and Pending are those of colligo's own backends.
//
// Invariants:
//
//  1. The library is loaded by Open or by the first group that uses it, never by importing the package.
//  2. The device's context must be current on the calling thread, which the goroutine keeps (cuda.Device.Enter): the library
//     counts groups by thread. Calls enqueue on the given stream and return.
//  3. An error carries the function, NCCL's number with its name, and its text. It also has the last error that NCCL has to
//     tell, and the library's version and path.
//  4. A function that the library is too old for is an error that says which version has it. Nothing is called in its place.
//
// Signatures, numbers and layouts follow nccl.h of NCCL 2.4 to 2.30.
package nccl
