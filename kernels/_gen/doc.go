// Package gen has the generators of packages kernels and ptx. They are in a module of their own, so that their dependencies
// never become dependencies of the library. A generator is a program in a folder below this one that go generate
// ./kernels/... starts. The program in vector writes Go assembly, and the one in ptx compiles the CUDA C++ in cuda to PTX.
// Each generated file begins with the standard marker and the exact command. The pipeline (.ci/run) deletes and regenerates
// it and demands a clean tree.
package gen
