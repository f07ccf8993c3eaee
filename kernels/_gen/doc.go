// Package gen is where the generators of package kernels live, in a module of their own so that what they need never
// becomes a dependency of the library. A generator is a program in a folder below this one that go generate ./kernels/...
// starts; ptx compiles the CUDA C++ in cuda to PTX. What a generator writes begins with the standard marker and the exact
// command; .ci/run deletes and regenerates it and demands a clean tree.
package gen
