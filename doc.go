// Package colligo is the vocabulary of a collective communication library for Go without cgo: element types, reduce
// operations, devices, tensor views and errors. Programs start in package pg, which forms groups of ranks and runs
// collectives on the tensors described here.
//
// Invariants:
//
//  1. A Tensor is a view. It owns nothing, copies nothing and keeps ordinary Go memory alive, but neither raw nor
//     device memory.
//  2. Which reduce operation is legal on which element type is one table, OpKind.Check; every backend asks it.
//  3. Float16, bfloat16 and float8 values are bit patterns; conversions round to nearest, ties to even.
//
// The package never does I/O, never waits and never looks at the clock or the environment.
package colligo
